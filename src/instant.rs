//! Instants on the wire: RFC 3339, UTC, milliseconds.

use time::OffsetDateTime;

/// An instant of the years 0 to 9999 as text, such as `2026-01-31T08:00:00.000Z`.
///
/// Written out: reading a format's description for every instant takes several times as long.
pub fn format(at: OffsetDateTime) -> String {
    let in_utc = at.checked_to_offset(time::UtcOffset::UTC).unwrap_or(at);
    let (year, month, day) = in_utc.to_calendar_date();
    let (hour, minute, second, milli) = in_utc.time().as_hms_milli();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    put(&mut text[0..4], year.unsigned_abs());
    put(&mut text[5..7], u8::from(month).into());
    put(&mut text[8..10], day.into());
    put(&mut text[11..13], hour.into());
    put(&mut text[14..16], minute.into());
    put(&mut text[17..19], second.into());
    put(&mut text[20..23], milli.into());
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes the last digits of a number.
fn put(digits: &mut [u8], mut number: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::UtcOffset;
    use time::macros::{datetime, format_description};

    use super::*;

    proptest! {
        #[test]
        fn an_instant_is_written_in_utc_to_the_millisecond(
            seconds in datetime!(0000-01-02 0:00 UTC).unix_timestamp()..datetime!(9999-12-31 0:00 UTC).unix_timestamp(),
            nanos in 0_i64..1_000_000_000,
            minutes in -720_i32..720,
        ) {
            let described =
                format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
            let in_utc = OffsetDateTime::from_unix_timestamp(seconds).unwrap() + time::Duration::nanoseconds(nanos);
            let elsewhere = in_utc.to_offset(UtcOffset::from_whole_seconds(minutes * 60).unwrap());
            prop_assert_eq!(format(elsewhere), in_utc.format(described).unwrap());
        }
    }
}
