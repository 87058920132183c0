//! Refusals as REST spells them: `application/problem+json` (RFC 9457) with the dialect's members beside the
//! standard's, so that a caller finds the same words as over MCP.

use axum::response::Response;
use http::StatusCode;
use serde_json::Map;

use crate::call::Error;
use crate::call::dialect::Dialect;
use crate::doors::refusal::{self, Refusal};
use crate::error::Retry;

/// Why a request was not answered by a tool.
#[derive(Debug)]
pub(super) enum Refused {
    /// By the HTTP layer: no tool was reached.
    AtTheDoor(Refusal),
    /// By the call path: spelt in the toolset's dialect.
    Call(Error),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused::AtTheDoor(refusal)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Call(error)
    }
}

impl Refused {
    pub(super) fn answer(&self, dialect: Dialect) -> Response {
        match self {
            Refused::AtTheDoor(refusal) => refusal.answer(false, None),
            Refused::Call(error) => of_error(error, dialect),
        }
    }
}

/// An error in its toolset's dialect: `type`, `title`, `status` and `detail` of the standard, then `code`,
/// `message`, `retryable` and what else the dialect has. 401 and what is worth a retry say so in headers too.
pub(super) fn of_error(error: &Error, dialect: Dialect) -> Response {
    let (_, status, retry) = error.verdict();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let retry_after = match retry {
        Retry::Never => None,
        Retry::After(seconds) => Some(seconds),
    };
    let mut members = dialect.members(error);
    members.entry("retryable").or_insert_with(|| retry_after.is_some().into());
    refusal::problem(status, &error.to_string(), members, retry_after)
}

/// A name at `/api/v1/tools/` that no tool has, with the nearest one that does exist.
pub(super) fn unknown_tool(nearest: Option<&str>) -> Response {
    let message = "There is no tool of that name here. /llms.txt lists them, /openapi.yaml describes them.";
    let mut members = Map::new();
    members.insert("code".into(), "not_found".into());
    members.insert("message".into(), message.into());
    members.insert("retryable".into(), false.into());
    if let Some(name) = nearest {
        members.insert("suggestion".into(), name.into());
    }
    refusal::problem(StatusCode::NOT_FOUND, message, members, None)
}
