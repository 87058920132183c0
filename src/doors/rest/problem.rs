//! Refusals as REST spells them: `application/problem+json` (RFC 9457) with the dialect's members beside the
//! standard's, so that a caller finds the same words as over MCP.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

use crate::call::Error;
use crate::call::dialect::Dialect;
use crate::call::error::Retry;
use crate::doors::refusal::Refusal;

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
            Refused::AtTheDoor(refusal) => of_refusal(refusal),
            Refused::Call(error) => of_error(error, dialect),
        }
    }
}

/// A refusal of the HTTP layer.
pub(super) fn of_refusal(refusal: &Refusal) -> Response {
    let mut answer = refusal.answer(false, None);
    answer.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    answer
}

/// An error in its toolset's dialect: `type`, `title`, `status` and `detail` of the standard, then `code`,
/// `message`, `retryable` and what else the dialect has. 401 and what is worth a retry say so in headers too.
pub(super) fn of_error(error: &Error, dialect: Dialect) -> Response {
    let (_, status, retry) = error.verdict();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut problem = standard(status, &error.to_string());
    problem.extend(dialect.members(error));
    problem.entry("retryable").or_insert_with(|| matches!(retry, Retry::After(_)).into());
    let mut answer = respond(status, problem);
    if let Retry::After(seconds) = retry {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"waypost\"");
        answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    answer
}

/// A name at `/api/v1/tools/` that no tool has, with the nearest one that does exist.
pub(super) fn unknown_tool(nearest: Option<&str>) -> Response {
    let message = "There is no tool of that name here. /llms.txt lists them, /openapi.yaml describes them.";
    let mut problem = standard(StatusCode::NOT_FOUND, message);
    problem.insert("code".into(), "not_found".into());
    problem.insert("message".into(), message.into());
    problem.insert("retryable".into(), false.into());
    if let Some(name) = nearest {
        problem.insert("suggestion".into(), name.into());
    }
    respond(StatusCode::NOT_FOUND, problem)
}

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The members of RFC 9457. `about:blank` says that the title is the status's own.
fn standard(status: StatusCode, detail: &str) -> Map<String, Value> {
    let members = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Refused"),
        "status": status.as_u16(),
        "detail": detail,
    });
    members.as_object().cloned().unwrap_or_default()
}

fn respond(status: StatusCode, problem: Map<String, Value>) -> Response {
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static("application/problem+json")), (CACHE_CONTROL, NO_STORE)];
    (status, headers, Value::Object(problem).to_string()).into_response()
}
