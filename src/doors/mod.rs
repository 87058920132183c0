//! How a call comes in: bytes to arguments, dispatch, and back to bytes. No SQL and no rules here.

pub mod accept;
pub mod front;
pub mod mcp;
pub mod probes;
pub mod reception;
pub mod refusal;

use axum::Router;
use reception::Reception;

/// All doors.
pub fn router(reception: Reception) -> Router {
    mcp::router(reception)
}
