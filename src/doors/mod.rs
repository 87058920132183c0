//! How a call comes in: bytes to arguments, dispatch, and back to bytes. No SQL and no rules here.

pub mod accept;
pub mod front;
pub mod openapi;
pub mod probes;
pub mod reception;
pub mod refusal;
pub mod rest;
pub mod wellknown;
