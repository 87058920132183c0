//! Opaque cursors of listings: base64url of strict JSON, bound to one listing.
//!
//! A cursor says where to go on and grants nothing: every page judges anew what
//! the caller may see.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Error, Result};

/// Most characters of a cursor: more cannot be one of ours.
const MOST: usize = 1024;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<P> {
    /// The listing: its name and whose it is.
    of: String,
    /// The place of the last row served.
    at: P,
}

/// The cursor that goes on after `at` in the listing named `of`.
pub fn encode<P: Serialize>(of: &str, at: P) -> Result<String> {
    let sealed = serde_json::to_vec(&Sealed { of: of.to_owned(), at }).map_err(Error::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed))
}

/// The place a cursor of the listing `of` stands for.
///
/// # Errors
/// `validation_error` for anything this listing did not make for this caller:
/// edited, cut, with unknown members, or of another listing.
pub fn decode<P: DeserializeOwned + Serialize>(of: &str, cursor: &str) -> Result<P> {
    let refused = || Error::invalid("cursor", "is not a cursor of this listing; start again without one");
    if cursor.len() > MOST {
        return Err(refused());
    }
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
    let sealed: Sealed<P> = serde_json::from_slice(&bytes).map_err(|_| refused())?;
    // Only the one spelling that encode gives: no spaces, no reordered members.
    let canonical = serde_json::to_vec(&sealed).map_err(Error::internal)?;
    if sealed.of != of || canonical != bytes {
        return Err(refused());
    }
    Ok(sealed.at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_comes_back_as_it_was(of in "[a-z/0-9-]{1,60}", at: (i64, u32)) {
            let cursor = super::encode(&of, at).unwrap();
            prop_assert_eq!(super::decode::<(i64, u32)>(&of, &cursor).unwrap(), at);
        }

        #[test]
        fn a_cursor_of_another_listing_is_refused(at: i64) {
            let cursor = super::encode("agents/1", at).unwrap();
            prop_assert!(super::decode::<i64>("agents/2", &cursor).is_err());
        }

        #[test]
        fn an_edited_cursor_is_refused_or_means_the_same(at: i64, place: prop::sample::Index, byte in "[A-Za-z0-9_=-]") {
            let cursor = super::encode("agents/1", at).unwrap();
            let place = place.index(cursor.len());
            let edited = format!("{}{byte}{}", &cursor[..place], &cursor[place + 1..]);
            // A digit may have become another digit: that is still a place in the same listing.
            if let Ok(other) = super::decode::<i64>("agents/1", &edited) {
                prop_assert_eq!(super::encode("agents/1", other).unwrap(), edited);
            }
        }

        #[test]
        fn garbage_is_refused(garbage in ".{0,80}") {
            prop_assert!(super::decode::<i64>("agents/1", &garbage).is_err());
        }
    }
}
