//! Judges arguments by a tool's published input schema, so that what agents are told is what is
//! enforced. What passes comes out normalized, ready to be read into the tool's input struct.

mod compile;
mod judge;
mod number;

use regex::Regex;
use serde_json::{Map, Value};

use super::field_path::FieldPath;
use crate::error::Error;

/// A tool's input schema, compiled once at start.
#[derive(Debug)]
pub struct Shape {
    root: ObjectShape,
    other_words: Vec<(&'static str, &'static str)>,
}

/// What is wrong with a call's arguments. Neither variant holds a rejected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A field that the schema does not have.
    #[error("`{field}` is not a field of this tool")]
    Unknown {
        /// Where: `parts[0].metadata`, names as [`echo_name`](super::field_path::echo_name) gives them,
        /// `…` for one that looks like a credential.
        field: String,
        /// The most similar field that exists beside it, when one is similar.
        suggestion: Option<String>,
    },
    /// A field that is missing or not what the schema asks for.
    #[error("`{field}` {problem}")]
    Invalid {
        /// Where, spelled like the above.
        field: String,
        /// What is wanted, to follow the field's name: `must be a whole number from 1 to 100`.
        problem: String,
    },
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Unknown { field, suggestion } => Error::UnknownField { field, suggestion },
            Fault::Invalid { field, problem } => Error::Invalid { field, problem },
        }
    }
}

impl Shape {
    /// Compiles a JSON Schema whose root is an object.
    ///
    /// # Errors
    /// Names the place of a keyword, type or format outside the subset that published schemas use
    /// (no `anyOf`, `$ref` and the like), a pattern that is no regular expression, or a default that
    /// the schema itself refuses.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        compile::shape(schema)
    }

    /// Adds words that callers use for a field (`("text", "body")`), so that the suggestion finds
    /// what similarity cannot. The word itself stays unknown.
    #[must_use]
    pub fn also_called(mut self, words: &[(&'static str, &'static str)]) -> Self {
        self.other_words.extend_from_slice(words);
        self
    }

    /// Judges arguments and gives them back normalized, in the schema's order. Checking the result
    /// again changes nothing.
    ///
    /// - `null` members count as absent, and `_meta` is dropped; free-form objects stay untouched.
    /// - Absent fields that have a default get it.
    /// - A whole number may come as `5`, `5.0`, `5e0` or `"5"`; it must lie within ±(2^53−1). One
    ///   without any bound saturates there instead: such a field is clamped by its tool.
    /// - Other numbers may come as numeric text too; booleans only as booleans.
    /// - A text with a pattern may come as a number, judged by its decimal text.
    /// - A UUID needs its 36-character form and becomes lower case; a date-time needs its offset.
    ///
    /// # Errors
    /// The first fault, object by object: unknown fields, then missing ones, then the rest in the
    /// schema's order.
    pub fn check(&self, mut arguments: Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        if !self.root.has("_meta") {
            arguments.shift_remove("_meta");
        }
        self.root.judge(arguments, FieldPath::Root, &self.other_words)
    }
}

/// The schema of one value.
#[derive(Debug)]
struct Node {
    kind: Kind,
    /// The values allowed, when they are listed.
    options: Option<Vec<Value>>,
    default: Option<Value>,
}

#[derive(Debug)]
enum Kind {
    Any,
    Boolean,
    Whole(Bounds),
    Number(Bounds),
    Text(TextShape),
    List(Box<ListShape>),
    Object(ObjectShape),
}

/// Bounds of a number; every one in use is small enough to be exact.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    min: Option<f64>,
    max: Option<f64>,
    /// The exclusive minimum.
    above: Option<f64>,
}

/// Bounds of a length: characters (Unicode scalar values) or items.
#[derive(Debug, Clone, Copy, Default)]
struct Length {
    min: Option<u64>,
    max: Option<u64>,
}

#[derive(Debug)]
struct TextShape {
    length: Length,
    pattern: Option<Regex>,
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Uuid,
    DateTime,
}

#[derive(Debug)]
struct ListShape {
    items: Option<Node>,
    length: Length,
    unique: bool,
}

#[derive(Debug)]
struct ObjectShape {
    fields: Vec<(String, Node)>,
    required: Vec<String>,
    rest: Rest,
}

/// What fields beyond the listed ones may be.
#[derive(Debug)]
enum Rest {
    Refused,
    /// Anything, kept as it came.
    Free,
    Typed(Box<Node>),
}

impl ObjectShape {
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }
}

#[cfg(test)]
mod tests;
