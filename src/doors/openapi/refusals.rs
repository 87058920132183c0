//! What any operation may answer instead: problems, shared by all.

use http::StatusCode;
use serde_json::{Map, Value, json};

/// Every status of a refusal.
pub(super) const STATUSES: [u16; 12] = [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503];

/// A reference to the shared response of a status.
pub(super) fn reference(status: u16) -> Value {
    json!({ "$ref": format!("#/components/responses/{}", name(status)) })
}

/// The shared responses, by [`name`].
pub(super) fn responses() -> Value {
    let response = |status: u16| {
        let problem = json!({ "$ref": "#/components/schemas/Problem" });
        let mut response = json!({
            "description": about(status),
            "content": { "application/problem+json": { "schema": problem } },
        });
        let headers = headers(status);
        if !headers.is_empty() {
            response["headers"] = headers.into();
        }
        (name(status), response)
    };
    Value::Object(STATUSES.into_iter().map(response).collect())
}

/// The schema of a problem (RFC 9457), with the members that tools' failures have over MCP.
pub(super) fn problem() -> Value {
    json!({
        "type": "object",
        "description": "Why a request was refused (RFC 9457). Branch on code, not on message.",
        "required": ["type", "title", "status", "detail", "code", "message", "retryable"],
        "properties": {
            "type": { "type": "string", "description": "about:blank: title is the meaning of the status." },
            "title": { "type": "string", "description": "The meaning of the status." },
            "status": { "type": "integer", "description": "The HTTP status." },
            "detail": { "type": "string", "description": "The same as message." },
            "code": { "type": "string", "description": "A stable word for it." },
            "message": { "type": "string", "description": "What is wrong and what to do next." },
            "retryable": { "type": "boolean", "description": "Whether the same request may succeed later." },
            "hint": {
                "anyOf": [{ "type": "string" }, { "type": "null" }],
                "description": "Advice beside the message.",
            },
            "suggestion": { "type": "string", "description": "The nearest real name, for one that does not exist." },
            "details": {
                "type": "object",
                "description": "Facts by kind of refusal: field, limit, candidates, retry_after (seconds) and others.",
            },
        },
    })
}

/// `NotFound` for 404.
fn name(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    reason.unwrap_or_default().split(' ').collect()
}

fn about(status: u16) -> &'static str {
    match status {
        400 => "The request is not readable, or a message is too large.",
        401 => "A credential is missing, does not stand, or differs from another one sent along.",
        403 => "The credential is of the wrong kind or organization, or may not do this.",
        404 => "No such thing. What you may not see does not exist here.",
        408 => "The body did not arrive in time.",
        409 => "It conflicts with what is there: a key used before, an ambiguous name, a full mailbox.",
        413 => "The body is too large.",
        415 => "The body is not declared as application/json.",
        422 => "An argument is unknown, missing or not what its schema asks for.",
        429 => "Too many requests, registrations or held reads for now.",
        500 => "A fault of the service. Nothing was stored.",
        _ => "The service cannot do this right now.",
    }
}

fn headers(status: u16) -> Map<String, Value> {
    let retry_after = ("Retry-After", "Seconds to wait, where waiting can help.", "integer");
    let told: &[(&str, &str, &str)] = match status {
        401 => &[("WWW-Authenticate", "How to authenticate.", "string")],
        409 | 500 | 503 => &[retry_after],
        429 => &[
            retry_after,
            (
                "RateLimit-Policy",
                "How many requests may come in how many seconds: \"credential\";q=100;w=2.",
                "string",
            ),
            (
                "RateLimit",
                "How many are left, and in how many seconds more: \"credential\";r=0;t=1.",
                "string",
            ),
        ],
        _ => &[],
    };
    let header = |(name, about, kind): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({ "description": about, "schema": { "type": kind } }))
    };
    told.iter().map(header).collect()
}
