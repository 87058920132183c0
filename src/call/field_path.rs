//! Where in the caller's input a fault lies, spelled `parts[0].metadata`.

use std::fmt;

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

/// A field name as it may be shown to the caller: cut to 64 characters, control characters
/// replaced. `None` when it looks like a credential, which is never echoed.
#[must_use]
pub fn echo_name(name: &str) -> Option<String> {
    let longest_run = name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    if longest_run >= 32 || name.contains("wpa_") || name.contains("wpo_") {
        return None;
    }
    Some(name.chars().take(64).map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::echo_name;

    #[test]
    fn a_name_that_looks_like_a_credential_is_never_echoed() {
        assert_eq!(echo_name("wpa_x"), None);
        assert_eq!(echo_name("Bearer wpo_x"), None);
        assert_eq!(echo_name(&"aB3".repeat(11)), None);
        assert_eq!(echo_name("recipient_agent_id").as_deref(), Some("recipient_agent_id"));
        assert_eq!(echo_name(&"ü".repeat(90)).unwrap().chars().count(), 64);
    }
}
