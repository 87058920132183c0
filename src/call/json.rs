//! Strict JSON: what a lenient parser lets pass (repeated keys, NUL, bottomless nesting) is refused
//! here, with the place named, before anything else looks at the input.

mod strict;

use std::cell::RefCell;

use serde::{Deserializer as _, de::DeserializeSeed as _};
use serde_json::{Value, value::RawValue};

use self::strict::{OneLevel, Strict};
use super::field_path::FieldPath;
use crate::error::Error;

/// How deep arguments may nest, counted from the arguments object: itself is 1.
pub const ARGUMENTS_DEPTH: usize = 32;

/// The tokenizer below has a limit of 128 of its own; staying under it keeps "too deep" ours to say.
const DEEPEST: usize = 120;

/// Why bytes were refused. No variant holds an input value; paths are spelled `parts[0].metadata`,
/// names cut to 64 characters and replaced by `…` where they look like a credential. The path of
/// the whole value is the empty text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not JSON: bad UTF-8, lone surrogates, broken syntax, trailing bytes, numbers beyond a double.
    /// The text is safe to show and ends in line and column.
    #[error("not valid JSON: {0}")]
    Broken(String),
    /// An object names the same key twice.
    #[error("`{path}` is given twice")]
    Duplicate {
        /// The key given twice.
        path: String,
    },
    /// A text or a key holds the NUL character, which cannot be stored.
    #[error("`{path}` holds a NUL character")]
    Nul {
        /// The text, or the key itself.
        path: String,
    },
    /// Objects and lists nest deeper than allowed.
    #[error("`{path}` is nested too deeply")]
    TooDeep {
        /// The first object or list that is too deep.
        path: String,
    },
    /// A key that the JSON library keeps for itself.
    #[error("`{path}` is a reserved name")]
    Reserved {
        /// The key.
        path: String,
    },
    /// Valid JSON, but [`object`] was asked for an object.
    #[error("a JSON object is needed here")]
    NotAnObject,
}

/// What strict JSON refuses in arguments.
impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let (path, problem) = match refused {
            Refused::Broken(fault) => return Error::Malformed(fault),
            Refused::Duplicate { path } => (path, "is given twice"),
            Refused::Nul { path } => (path, "must not hold a NUL character"),
            Refused::TooDeep { path } => (path, "is nested too deeply"),
            Refused::Reserved { path } => (path, "is a reserved name"),
            Refused::NotAnObject => (String::new(), "must be one JSON object"),
        };
        let field = if path.is_empty() { "arguments".to_owned() } else { path };
        Error::invalid(field, problem)
    }
}

/// Parses one JSON value and refuses what [`Refused`] lists, in one pass and linear time, whatever
/// the bytes. `max_depth` counts nested objects and lists from the value itself (1); beyond 120 it
/// is taken as 120. Broken JSON wins over every other refusal.
///
/// # Errors
/// The first refusal in reading order.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Value, Refused> {
    let refusal = RefCell::new(None);
    let strict = Strict { place: FieldPath::Root, depth_left: max_depth.min(DEEPEST), refusal: &refusal };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    parsed.map_err(|error| settle(bytes, refusal.into_inner(), &error))
}

/// Reads one level of an object: each key with the bytes of its value, in the order sent. For
/// envelopes whose members are judged by different rules: each member is then given to [`parse`],
/// which alone finds lone surrogates, repeated keys, NUL and depth inside it.
///
/// # Errors
/// [`Refused::NotAnObject`]; [`Refused::Broken`] for the whole text's syntax and UTF-8;
/// [`Refused::Duplicate`] and [`Refused::Nul`] for keys of this level.
pub fn object(bytes: &[u8]) -> Result<Vec<(String, &RawValue)>, Refused> {
    let refusal = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = reader.deserialize_map(OneLevel(&refusal));
    let parsed = parsed.and_then(|members| reader.end().map(|()| members));
    parsed.map_err(|error| {
        let refusal = refusal.into_inner().or_else(|| error.is_data().then_some(Refused::NotAnObject));
        settle(bytes, refusal, &error)
    })
}

/// Which refusal is told: text that is not JSON at all is `Broken`, even where an earlier fault
/// ended the strict pass. The second look skips over values without recursion.
fn settle(bytes: &[u8], refusal: Option<Refused>, error: &serde_json::Error) -> Refused {
    let Some(refusal) = refusal else { return Refused::Broken(error.to_string()) };
    match serde_json::from_slice::<&RawValue>(bytes) {
        Err(broken) => Refused::Broken(broken.to_string()),
        Ok(_) => refusal,
    }
}

#[cfg(test)]
mod tests;
