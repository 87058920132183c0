//! How a call comes in: bytes to arguments, dispatch, and back to bytes. No SQL and no rules here.

pub mod accept;
pub(crate) mod docs;
mod document;
pub mod front;
pub(crate) mod mcp;
pub(crate) mod media;
pub mod openapi;
pub(crate) mod pairs;
pub mod probes;
pub(crate) mod reception;
pub(crate) mod refusal;
pub(crate) mod rest;
pub(crate) mod toll;
pub(crate) mod wellknown;

use std::sync::Arc;

use axum::Router;
use reception::Reception;

/// All doors.
pub fn router(reception: Arc<Reception>) -> Router {
    let registry = &reception.registry;
    let documents = openapi::router(registry);
    let public_url = &reception.dispatch.terms.public_url;
    let documents = documents.merge(wellknown::router(registry, public_url));
    let documents = documents.merge(docs::router(registry, public_url));
    rest::router(reception.clone()).merge(mcp::router(reception)).merge(documents)
}
