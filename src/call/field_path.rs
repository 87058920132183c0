//! Where in the caller's input a fault lies, spelled `parts[0].metadata`.

use std::fmt;

use super::json::echo_name;

/// A place in the input, kept as links on the stack so that it costs nothing until it is shown.
#[derive(Clone, Copy)]
pub(super) enum FieldPath<'a> {
    /// The value itself; shown as the empty text.
    Root,
    /// A member of the object at the given place.
    Member(&'a FieldPath<'a>, &'a str),
    /// An item of the list at the given place, counted from 0.
    Item(&'a FieldPath<'a>, usize),
}

impl<'a> FieldPath<'a> {
    pub(super) fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    pub(super) fn item(&'a self, index: usize) -> Self {
        Self::Item(self, index)
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Item(list, index) => write!(f, "{list}[{index}]"),
            Self::Member(object, name) => {
                let dot = if matches!(object, Self::Root) { "" } else { "." };
                write!(f, "{object}{dot}{}", echo_name(name).as_deref().unwrap_or("…"))
            }
        }
    }
}
