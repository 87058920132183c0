//! Instants on the wire: RFC 3339, UTC, milliseconds.

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// An instant as text, such as `2026-01-31T08:00:00.000Z`.
pub fn format(at: OffsetDateTime) -> String {
    let in_utc = at.checked_to_offset(time::UtcOffset::UTC).unwrap_or(at);
    in_utc.format(FORMAT).unwrap_or_default()
}

/// For `#[serde(with)]` on `OffsetDateTime`; publish it as a `date-time` string.
pub fn serialize<S: serde::Serializer>(at: &OffsetDateTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format(*at))
}

/// The way back, for answers that are stored and replayed.
pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<OffsetDateTime, D::Error> {
    time::serde::rfc3339::deserialize(from)
}

/// For `#[serde(with)]` on `Option<OffsetDateTime>`: absent instants are null.
pub mod option {
    use time::OffsetDateTime;

    /// The text, or null.
    pub fn serialize<S: serde::Serializer>(at: &Option<OffsetDateTime>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => super::serialize(at, to),
            None => to.serialize_none(),
        }
    }
}
