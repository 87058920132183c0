//! The MCP endpoint: JSON-RPC over HTTP, in both eras of the protocol, request by request.
//!
//! Nothing is kept between requests: no sessions, no subscriptions. Written by hand because the surface is
//! small (six methods) and every refusal here is a JSON-RPC error that tells what to do next.

mod answer;
mod envelope;
mod eras;
mod fault;
mod instructions;
mod listing;
mod methods;
mod progress;
mod selection;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::routing::post;
use bytes::Bytes;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use self::envelope::Message;
use self::eras::Era;
use self::fault::{Away, Fault};
use self::listing::Listing;
use self::methods::Guest;
use self::selection::Selection;
use super::front::{BODY_DEADLINE, BodyRefused, read_body};
use super::media::is_json;
use super::reception::{Entrance, Reception};
use super::refusal::Refusal;
use super::toll::toll;
use crate::call::Error;
use crate::gate::{Tally, Visitor};

/// `POST /mcp` and `POST /o/{org}/mcp`.
pub fn router(reception: Arc<Reception>) -> Router {
    let door = Door { listing: Listing::new(&reception.registry), reception };
    Router::new()
        .route("/mcp", post(at_default).fallback(only_post))
        .route("/o/{org}/mcp", post(at_org).fallback(only_post))
        .with_state(Arc::new(door))
}

/// What the endpoint needs.
struct Door {
    reception: Arc<Reception>,
    listing: Listing,
}

async fn at_default(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    toll(&door.reception, request, |request, tally| serve(&door, None, tally, request)).await
}

async fn at_org(
    State(door): State<Arc<Door>>,
    org: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response<Body> {
    let serve = async |request, tally| match org {
        Ok(Path(org)) => serve(&door, Some(org), tally, request).await,
        // Not readable, so there is none of that name.
        Err(_) => Refusal::from(&Error::NotFound("organization")).answer(true, None),
    };
    toll(&door.reception, request, serve).await
}

/// Streams that the server begins and sessions that a client ends are not offered.
async fn only_post(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    let refuse = async |_, _| {
        let message = "This endpoint takes only POST, one JSON-RPC message at a time.";
        let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        let mut answer = refusal.answer(true, None);
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        answer
    };
    toll(&door.reception, request, refuse).await
}

/// One request. Its body is read even when its head is refused, to echo the id.
async fn serve(door: &Arc<Door>, org: Option<String>, tally: Tally, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let welcome = welcome(door, &head, Entrance { org: org.as_deref(), tally: &tally }).await;
    let body = match read(door, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal.answer(true, None),
    };
    let answer = match welcome {
        Ok((visitor, selection)) => {
            let guest = Guest { visitor, selection, org, tally: tally.clone(), body_length: body.len() };
            take(door, guest, &head.headers, &body).await
        }
        Err(refusal) => refusal.answer(true, envelope::id_of(&body)),
    };
    match tally.settle() {
        Ok(()) => answer,
        Err(error) => Away::from(error).answer(envelope::id_of(&body)),
    }
}

/// Judges the head: the kind of body, the credentials, the toolsets.
async fn welcome(door: &Door, head: &Parts, entrance: Entrance<'_>) -> Result<(Visitor, Selection), Refusal> {
    if !is_json(&head.headers) {
        let message = "Send one JSON-RPC message, with Content-Type: application/json.";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media", message));
    }
    let visitor =
        door.reception.greet(&head.headers, entrance).await.map_err(|error| Refusal::from(&error))?;
    let selection = Selection::read(head, entrance.org.is_some(), &door.reception)?;
    Ok((visitor, selection))
}

async fn read(door: &Door, body: Body) -> Result<Bytes, Refusal> {
    let limit = door.reception.registry.body_limit();
    read_body(body, limit, BODY_DEADLINE).await.map_err(|refused| match refused {
        BodyRefused::TooLarge => Refusal::from(&Error::PayloadTooLarge { limit }),
        BodyRefused::TooSlow | BodyRefused::NoRoom | BodyRefused::Broken => refused.refusal(),
    })
}

async fn take(door: &Arc<Door>, guest: Guest, headers: &HeaderMap, body: &[u8]) -> Response<Body> {
    let message = match envelope::read(body) {
        Ok(message) => message,
        Err(fault) => return Away::Rpc(fault).answer(envelope::id_of(body)),
    };
    match message {
        Message::Request(request) => {
            let answer = methods::answer(door, guest, headers, &request).await;
            answer.unwrap_or_else(|away| away.answer(Some(request.id)))
        }
        Message::Notification { method } => {
            let taken = eras::of_message(headers).and_then(|_| methods::notice(&method));
            accepted(taken)
        }
        Message::Response => accepted(eras::of_message(headers).and_then(|era| match era {
            Era::Legacy => Ok(()),
            Era::Modern => Err(Fault::request("Nothing was asked of you. Send requests and notifications.")),
        })),
    }
}

/// 202 without a body, for what wants no answer.
fn accepted(taken: Result<(), Fault>) -> Response<Body> {
    if let Err(fault) = taken {
        return Away::Rpc(fault).answer(None);
    }
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::ACCEPTED;
    answer
}
