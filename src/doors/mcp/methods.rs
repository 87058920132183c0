//! The methods of MCP that are served here.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::mpsc::channel;

use super::envelope::{Params, Request};
use super::eras::{self, Era};
use super::fault::{Away, Fault};
use super::progress::{self, Running};
use super::selection::Selection;
use super::{Door, answer};
use crate::call::json::{self, ARGUMENTS_DEPTH, Refused};
use crate::call::progress::Progress;
use crate::call::registry::Ran;
use crate::call::{Entry, Error, Result};
use crate::doors::media;
use crate::doors::reception::{Entrance, key_among};
use crate::doors::refusal::Refusal;
use crate::gate::{Tally, Visitor};
use crate::trace::Trace;

/// Where a request came in and by whom, once its head is judged.
pub struct Guest {
    /// Who, as far as the headers tell.
    pub visitor: Visitor,
    /// The toolsets it lists and calls.
    pub selection: Selection,
    /// The `{org}` of the path.
    pub org: Option<String>,
    /// What it is counted on.
    pub tally: Tally,
    /// How many bytes its body has.
    pub body_length: usize,
}

/// Answers one request.
pub async fn answer(
    door: &Arc<Door>,
    guest: Guest,
    headers: &HeaderMap,
    request: &Request<'_>,
) -> Result<Response<Body>, Away> {
    let params = Params::read(request.params)?;
    let era = eras::of_request(headers, &request.method, &params)?;
    let id = request.id.get();
    if request.method == "tools/call" {
        let takes_stream = progress::is_stream_accepted(headers);
        return call(door, guest, era, id, &params, takes_stream).await;
    }
    // A tool's call says this as its own answer, once a key among its arguments had its say.
    guest.visitor.organization()?;
    let body = match (era, request.method.as_str()) {
        (_, "tools/list") => list(door, &guest, era, id, &params)?,
        (Era::Modern, "server/discover") => answer::of_discover(id),
        (Era::Legacy, "initialize") => {
            let requested = params.text("protocolVersion");
            let missing = || Fault::params("params.protocolVersion must be a string such as 2025-11-25.");
            answer::of_initialize(id, requested.ok_or_else(missing)?)
        }
        (Era::Legacy, "ping") => answer::of_ping(id),
        (era, _) => return Err(unknown_method(era).into()),
    };
    Ok(media::json(StatusCode::OK, body))
}

/// Takes a notification: none of them changes anything here, since nothing outlives its request.
///
/// # Errors
/// A request that forgot its id: it would wait for an answer, and what it asks for must not happen unseen.
pub fn notice(method: &str) -> Result<(), Fault> {
    match method {
        "tools/call" | "tools/list" | "server/discover" | "initialize" | "ping" => {
            Err(Fault::request("A request needs an id, a string or an integer."))
        }
        _ => Ok(()),
    }
}

fn unknown_method(era: Era) -> Fault {
    let status = match era {
        Era::Modern => StatusCode::NOT_FOUND,
        Era::Legacy => StatusCode::OK,
    };
    let message = match era {
        Era::Modern => "There is no such method here: server/discover, tools/list and tools/call are served.",
        Era::Legacy => {
            "There is no such method here: initialize, ping, tools/list and tools/call are served."
        }
    };
    Fault::new(status, Fault::METHOD, message)
}

/// All selected tools on one page.
fn list(door: &Door, guest: &Guest, era: Era, id: &str, params: &Params<'_>) -> Result<Bytes, Fault> {
    if params.members.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
        return Err(Fault::params("There is no such cursor: all tools are on the first page."));
    }
    let tools = door.listing.tools(guest.selection, &door.reception.registry);
    Ok(answer::of_list(era, id, &tools, guest.selection.is_private))
}

async fn call(
    door: &Arc<Door>,
    guest: Guest,
    era: Era,
    id: &str,
    params: &Params<'_>,
    takes_stream: bool,
) -> Result<Response<Body>, Away> {
    let entry = find(door, guest.selection, params)?;
    if guest.body_length > entry.body_limit {
        return Err(Refusal::from(&Error::PayloadTooLarge { limit: entry.body_limit }).into());
    }
    let guest = Guest { visitor: guest.visitor.in_trace(trace(params)), ..guest };
    let token = progress_token(params)?;
    let dialect = entry.dialect;
    let arguments = match arguments(params.arguments)? {
        Ok(arguments) => arguments,
        Err(refused) => {
            return Ok(media::json(StatusCode::OK, answer::of_call(era, id, dialect, &Err(refused))));
        }
    };
    if key_among(&entry, &arguments).is_none() {
        // A stranger is refused as HTTP is; a key among the arguments gets the tool's own answer.
        guest.tally.settle()?;
    }
    let Some(token) = token.filter(|_| takes_stream) else {
        let outcome = run(door.clone(), guest, entry, arguments, Progress::Unasked).await;
        return Ok(media::json(StatusCode::OK, answer::of_call(era, id, dialect, &outcome)));
    };
    let (progress, notes) = channel(progress::AHEAD);
    let (door, id) = (door.clone(), id.to_owned());
    let call = async move {
        let outcome = run(door, guest, entry, arguments, Progress::Notes(progress)).await;
        answer::of_call(era, &id, dialect, &outcome)
    };
    Ok(progress::answer(Running { call: call.boxed(), notes, token }).await)
}

async fn run(
    door: Arc<Door>,
    guest: Guest,
    entry: Arc<Entry>,
    arguments: Map<String, Value>,
    progress: Progress,
) -> Result<Ran> {
    let entrance = Entrance { org: guest.org.as_deref(), tally: &guest.tally };
    door.reception.call(guest.visitor, entrance, &entry, arguments, progress).await
}

/// The tool, if it is one of those selected.
fn find(door: &Door, selection: Selection, params: &Params<'_>) -> Result<Arc<Entry>, Fault> {
    let registry = &door.reception.registry;
    let name = params.text("name").ok_or_else(|| Fault::params("params.name must be the name of a tool."))?;
    let entry = registry.find(name).filter(|entry| entry.is_listed() && selection.holds(entry, registry));
    let unknown = || Fault::params("Unknown tool: tools/list names the tools of the selected toolsets.");
    entry.cloned().ok_or_else(unknown)
}

/// The arguments, or what is wrong with them, which is the tool's to answer.
///
/// # Errors
/// -32602 when they are no object, -32700 when they are no JSON.
fn arguments(raw: Option<&RawValue>) -> Result<Result<Map<String, Value>>, Fault> {
    let raw = raw.map_or("{}", RawValue::get);
    let raw = if raw == "null" { "{}" } else { raw };
    match json::parse(raw.as_bytes(), ARGUMENTS_DEPTH) {
        Ok(Value::Object(arguments)) => Ok(Ok(arguments)),
        Ok(_) | Err(Refused::NotAnObject) => Err(Fault::params("params.arguments must be an object.")),
        Err(Refused::Broken(fault)) => {
            let message = format!("params.arguments are not valid JSON: {fault}.");
            Err(Fault::new(StatusCode::BAD_REQUEST, Fault::PARSE, message))
        }
        Err(refused) if raw.starts_with('{') => Ok(Err(refused.into())),
        Err(_) => Err(Fault::params("params.arguments must be an object.")),
    }
}

/// The trace that the call belongs to: where headers are the client library's, this is where one is named.
fn trace(params: &Params<'_>) -> Option<Trace> {
    params.meta(Trace::NAME).and_then(Value::as_str).and_then(Trace::read)
}

/// Under which name the client wants to hear of progress, if it does.
fn progress_token(params: &Params<'_>) -> Result<Option<Value>, Fault> {
    match params.meta("progressToken") {
        None | Some(Value::Null) => Ok(None),
        Some(token) if token.is_string() || token.is_i64() || token.is_u64() => Ok(Some(token.clone())),
        Some(_) => Err(Fault::params("params._meta.progressToken must be a string or an integer.")),
    }
}
