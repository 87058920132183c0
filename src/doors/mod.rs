//! How a call comes in: bytes to arguments, dispatch, and back to bytes. No SQL and no rules here.

pub mod accept;
pub mod front;
pub mod mcp;
pub mod media;
pub mod openapi;
pub mod probes;
pub mod reception;
pub mod refusal;
pub mod rest;
pub mod wellknown;

use axum::Router;
use reception::Reception;

/// All doors.
pub fn router(reception: Reception) -> Router {
    let registry = &reception.registry;
    let documents = openapi::router(registry);
    let documents = documents.merge(wellknown::router(registry, &reception.dispatch.terms.public_url));
    rest::router(reception.clone()).merge(mcp::router(reception)).merge(documents)
}
