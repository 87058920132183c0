//! Arguments in the query of a URL.

use serde_json::{Map, Value};

use super::problem::Refused;
use super::{shown, unknown_field};
use crate::call::Error;
use crate::call::tool::{BOX_KEY, OWNER_KEY};
use crate::doors::pairs::pairs;

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
