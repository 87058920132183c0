//! Arguments in the body of a request: one JSON object.

use axum::body::Body;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use super::problem::Refused;
use crate::call::Error;
use crate::call::json::{self, ARGUMENTS_DEPTH};
use crate::doors::front::{BODY_DEADLINE, BodyRefused, read_body};
use crate::doors::media::is_json;
use crate::doors::refusal::Refusal;

/// Reads the body into arguments; an empty one holds none.
///
/// # Errors
/// 413 over `limit` bytes, 408 when it does not arrive, 415 unless it is declared `application/json`, 400 for
/// what is no JSON, `validation_error` for JSON that a lenient reader would understand in its own way.
pub(super) async fn arguments(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Map<String, Value>, Refused> {
    let bytes = read_body(body, limit, BODY_DEADLINE).await.map_err(|refused| not_read(refused, limit))?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    if !is_json(headers) {
        let message = "Send the arguments as one JSON object, with Content-Type: application/json.";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media", message).into());
    }
    match json::parse(&bytes, ARGUMENTS_DEPTH).map_err(Error::from)? {
        Value::Object(arguments) => Ok(arguments),
        _ => Err(Error::from(json::Refused::NotAnObject).into()),
    }
}

/// For routes whose arguments stand elsewhere.
///
/// # Errors
/// `validation_error` for a body that is not empty: ignoring it would answer another question.
pub(super) async fn refuse(body: Body) -> Result<(), Refused> {
    match read_body(body, 0, BODY_DEADLINE).await {
        Ok(_) => Ok(()),
        Err(BodyRefused::TooLarge) => {
            Err(Error::invalid("body", "must be empty: this route takes its arguments in the URL").into())
        }
        Err(refused) => Err(refused.refusal().into()),
    }
}

fn not_read(refused: BodyRefused, limit: usize) -> Refused {
    match refused {
        BodyRefused::TooLarge => Error::PayloadTooLarge { limit }.into(),
        BodyRefused::TooSlow | BodyRefused::NoRoom | BodyRefused::Broken => refused.refusal().into(),
    }
}
