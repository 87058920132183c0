//! The one path every call takes, from argument bytes to a judged command.

pub mod arguments;
mod field_path;
pub mod json;
