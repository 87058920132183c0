//! Walks over the registry: what must be true of every tool, at every door, without naming one.
//!
//! Arguments are made from each tool's published input schema ([`sample`]) and from what a fresh caller owns
//! ([`grounds`]). A new tool is walked as soon as it is registered; one that no sample fits fails here.

mod agreement;
mod credentials;
mod doors;
mod grounds;
mod hygiene;
pub mod json_schema;
mod malformed;
mod reply;
mod sample;
mod spelling;
mod strangers;
