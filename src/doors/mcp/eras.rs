//! Which era of MCP a request belongs to, and what the modern one asks of every request.
//!
//! Modern (2026-07-28) carries its version, method and name in headers and in `params._meta`, and needs no
//! handshake. Legacy (2025) begins with `initialize`. Both come to the same address; each request decides anew.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::envelope::Params;
use super::fault::Fault;
use crate::call::field_path::echo_name;

/// How a client talks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28.
    Modern,
    /// 2025-11-25 and before.
    Legacy,
}

/// The modern version.
pub const MODERN: &str = "2026-07-28";
/// The legacy versions, newest first.
pub const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// Everything spoken here, newest first.
pub const SUPPORTED: [&str; 4] = [MODERN, LEGACY[0], LEGACY[1], LEGACY[2]];

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The headers, as clients write them.
const VERSION_HEADER: &str = "MCP-Protocol-Version";
const METHOD_HEADER: &str = "Mcp-Method";
const NAME_HEADER: &str = "Mcp-Name";

/// The era of a request.
///
/// # Errors
/// What the modern era refuses, all of it 400: -32602 for an incomplete `_meta`, -32020 for headers that are
/// missing, repeated, unreadable or at odds with the body, -32022 for a version that is not spoken here.
pub fn of_request(headers: &HeaderMap, method: &str, params: &Params<'_>) -> Result<Era, Fault> {
    let header = single(headers, VERSION_HEADER)?;
    let declared = params.meta(PROTOCOL_VERSION).filter(|version| !version.is_null());
    let is_legacy_header = header.is_none_or(|version| LEGACY.contains(&version));
    let is_legacy =
        declared.is_none() && method != "server/discover" && (is_legacy_header || method == "initialize");
    if is_legacy {
        return Ok(Era::Legacy);
    }
    let header = header.ok_or_else(|| missing(VERSION_HEADER))?;
    judge_version(header, declared, params)?;
    judge_method(headers, method, params)?;
    Ok(Era::Modern)
}

/// The era of a notification or of a client's response, for which only the version header counts.
///
/// # Errors
/// 400: -32020 for a header that is repeated or unreadable, -32022 for a version that is not spoken here.
pub fn of_message(headers: &HeaderMap) -> Result<Era, Fault> {
    match single(headers, VERSION_HEADER)? {
        Some(MODERN) => Ok(Era::Modern),
        Some(version) if !LEGACY.contains(&version) => Err(unsupported(version)),
        _ => Ok(Era::Legacy),
    }
}

fn judge_version(header: &str, declared: Option<&Value>, params: &Params<'_>) -> Result<(), Fault> {
    if declared.is_none() && !SUPPORTED.contains(&header) {
        // It tells a client of some other time more than that its _meta is incomplete.
        return Err(unsupported(header));
    }
    let declared =
        declared.and_then(Value::as_str).ok_or_else(|| incomplete(PROTOCOL_VERSION, "a string"))?;
    if !params.meta(CLIENT_CAPABILITIES).is_some_and(Value::is_object) {
        return Err(incomplete(CLIENT_CAPABILITIES, "an object"));
    }
    match declared {
        declared if declared != header => {
            Err(differs(VERSION_HEADER, "the protocol version in params._meta"))
        }
        MODERN => Ok(()),
        other => Err(unsupported(other)),
    }
}

fn judge_method(headers: &HeaderMap, method: &str, params: &Params<'_>) -> Result<(), Fault> {
    match single(headers, METHOD_HEADER)? {
        None => return Err(missing(METHOD_HEADER)),
        Some(named) if named != method => return Err(differs(METHOD_HEADER, "the method")),
        Some(_) => {}
    }
    // Without a name there is nothing to compare with; the method itself refuses that.
    let Some(name) = params.text("name").filter(|_| method == "tools/call") else { return Ok(()) };
    let named = single(headers, NAME_HEADER)?.ok_or_else(|| missing(NAME_HEADER))?;
    match decoded(named) {
        Some(named) if named == name.as_bytes() => Ok(()),
        _ => Err(differs(NAME_HEADER, "params.name")),
    }
}

/// The value of a header that may be there once.
fn single<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        (Some(Ok(_)), Some(_)) => Err(header(format!("The header {name} is given twice."))),
        (Some(Err(_)), _) => Err(header(format!("The header {name} holds characters that are not ASCII."))),
    }
}

/// The bytes of a value, which may be wrapped as `=?base64?...?=`.
fn decoded(value: &str) -> Option<Vec<u8>> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(wrapped) => STANDARD.decode(wrapped).ok(),
        None => Some(value.as_bytes().to_vec()),
    }
}

fn missing(name: &str) -> Fault {
    header(format!("The header {name} is missing; protocol {MODERN} asks for it on every request."))
}

fn differs(name: &str, what: &str) -> Fault {
    header(format!("The header {name} must equal {what}."))
}

fn header(message: String) -> Fault {
    Fault::new(StatusCode::BAD_REQUEST, Fault::HEADER, message)
}

fn incomplete(name: &str, kind: &str) -> Fault {
    let message = format!("params._meta must hold {name}, {kind}.");
    Fault::new(StatusCode::BAD_REQUEST, Fault::PARAMS, message)
}

fn unsupported(requested: &str) -> Fault {
    let requested = echo_name(requested).unwrap_or_else(|| "…".to_owned());
    let data = json!({ "supported": SUPPORTED, "requested": requested });
    let message = "This protocol version is not spoken here; data.supported lists those that are.";
    Fault { data: Some(data), ..Fault::new(StatusCode::BAD_REQUEST, Fault::VERSION, message) }
}

#[cfg(test)]
mod tests;
