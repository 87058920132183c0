//! Pages end before they grow too large for a model's context.

use serde::Serialize;

use crate::error::{Error, Result};

/// Most bytes of JSON that one page may take (one copy of it).
pub const PAGE_BYTES: usize = 61_440;

/// How many of `rows` fit on one page, in order, beside `frame` bytes of what else the answer
/// holds: the first is always served, and the page stops before the row that does not fit.
pub fn fitting<T: Serialize>(rows: &[T], frame: usize) -> Result<usize> {
    let mut bytes = frame;
    for (place, row) in rows.iter().enumerate() {
        bytes += serde_json::to_vec(row).map_err(Error::internal)?.len() + 1;
        if bytes > PAGE_BYTES && place > 0 {
            return Ok(place);
        }
    }
    Ok(rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_is_always_served_and_the_rest_only_if_it_fits() {
        let wide = "x".repeat(PAGE_BYTES + 1);
        assert_eq!(fitting(&[wide.as_str(), "y"], 0).unwrap(), 1);
        assert_eq!(fitting(&["y", wide.as_str(), "y"], 0).unwrap(), 1);
        assert_eq!(fitting(&["y", "y"], 0).unwrap(), 2);
        assert_eq!(fitting::<&str>(&[], 0).unwrap(), 0);
    }

    proptest::proptest! {
        #[test]
        fn a_page_of_several_rows_never_exceeds_the_limit(
            lengths in proptest::collection::vec(0usize..30_000, 0..20),
            frame in 0usize..5_000,
        ) {
            let rows: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let count = fitting(&rows, frame).unwrap();
            let size = |rows: &[String]| serde_json::to_vec(rows).unwrap().len() - 1 + frame;
            proptest::prop_assert!(count <= 1 || size(&rows[..count]) <= PAGE_BYTES);
            proptest::prop_assert!(count == rows.len() || size(&rows[..=count]) > PAGE_BYTES);
        }
    }
}
