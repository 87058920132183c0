//! The query of a URL as names and values, the same at every door.

use http::StatusCode;

use super::refusal::Refusal;

/// The pairs of a query as forms and browsers write them (URL Standard, `application/x-www-form-urlencoded`).
///
/// Each may be a 400 instead: text that is no UTF-8 once decoded.
pub fn pairs(query: &str) -> impl Iterator<Item = Result<(String, String), Refusal>> + '_ {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name)?, decode(value)?))
    })
}

/// `+` is a space; a `%` that begins no two hex digits stands for itself.
fn decode(text: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => match hex(*high).zip(hex(*low)) {
                Some((high, low)) => (high * 16 + low, after),
                None => (b'%', &rest[1..]),
            },
            (b'+', _) => (b' ', after),
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| {
        let message = "The query is not readable: percent-encode UTF-8 text.";
        Refusal::new(StatusCode::BAD_REQUEST, "malformed_request", message)
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
