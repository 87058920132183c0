//! How a toolset spells errors: its words and its envelope, never mixed.

use serde_json::{Map, Value, json};

use super::Error;
use crate::error::Retry;

/// The spelling of one toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `{error:{code,message,retryable,hint?,suggestion?,details?}}`, codes in lower_snake.
    Mailbox,
}

impl Dialect {
    /// The failure as this toolset's tools answer it over MCP.
    pub fn failure(self, error: &Error) -> Value {
        match self {
            Dialect::Mailbox => json!({ "error": self.members(error) }),
        }
    }

    /// The members of the failure, which a REST problem carries too.
    pub fn members(self, error: &Error) -> Map<String, Value> {
        match self {
            Dialect::Mailbox => mailbox_members(error),
        }
    }

    /// The schema of [`Dialect::failure`], for published output schemas: what clients may build on, and no
    /// more, since it stands beside every tool.
    pub fn failure_schema(self) -> Value {
        match self {
            Dialect::Mailbox => json!({ "type": "object", "required": ["error"] }),
        }
    }
}

fn mailbox_members(error: &Error) -> Map<String, Value> {
    let (code, _, retry) = error.verdict();
    let mut members = Map::new();
    members.insert("code".into(), code.into());
    members.insert("message".into(), error.to_string().into());
    members.insert("retryable".into(), matches!(retry, Retry::After(_)).into());
    if let Some(hint) = error.hint() {
        members.insert("hint".into(), hint.into());
    }
    if let Some(suggestion) = error.suggestion() {
        members.insert("suggestion".into(), suggestion.into());
    }
    let details = error.details();
    if !details.is_empty() {
        members.insert("details".into(), details.into());
    }
    members
}
