//! Arguments in the query of a URL.

use http::StatusCode;
use serde_json::{Map, Value};

use super::problem::Refused;
use super::{shown, unknown_field};
use crate::call::Error;
use crate::call::tool::{BOX_KEY, OWNER_KEY};
use crate::doors::refusal::Refusal;

/// Reads `query` into arguments, each of them text: judging turns numbers into numbers.
///
/// # Errors
/// 400 for text that is no UTF-8 once decoded; `unknown_field` for a credential, since URLs are logged on
/// their way; `validation_error` for a name given twice and for NUL. Other unknown names are left to judging.
pub(super) fn arguments(query: &str) -> Result<Map<String, Value>, Refused> {
    let mut arguments = Map::new();
    for pair in pairs(query) {
        let (name, value) = pair?;
        if matches!(name.as_str(), BOX_KEY | OWNER_KEY | "_meta") {
            return Err(unknown_field(&name).into());
        }
        if name.contains('\0') || value.contains('\0') {
            return Err(Error::invalid(shown(&name), "must not hold a NUL character").into());
        }
        if arguments.contains_key(&name) {
            return Err(Error::invalid(shown(&name), "is given twice").into());
        }
        arguments.insert(name, value.into());
    }
    Ok(arguments)
}

/// For routes that take no arguments in the query.
///
/// # Errors
/// `unknown_field` for the first name in it, 400 for text that is not readable.
pub(super) fn refuse(query: &str) -> Result<(), Refused> {
    match pairs(query).next() {
        None => Ok(()),
        Some(pair) => Err(unknown_field(&pair?.0).into()),
    }
}

/// The pairs as forms and browsers write them (URL Standard, `application/x-www-form-urlencoded`).
fn pairs(query: &str) -> impl Iterator<Item = Result<(String, String), Refusal>> + '_ {
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
