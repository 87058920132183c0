//! Webhooks: an agent's endpoint is told that mail waits, at least once, in order, never with its text.
//!
//! A posting makes the row of an active webhook due in its own transaction, and that is all it does. A
//! [`dispatcher`] on each pod leases rows that are due, tells what lies beyond `announced_seq`, and moves that on.
//! Whatever dies meanwhile, the row stays due, or its lease runs out.

mod challenge;
mod delivery;
pub mod dispatcher;
mod farewell;
mod notice;
mod reason;
mod retry;
pub(super) mod rows;

pub(super) use challenge::ask;
pub(super) use delivery::sealed_for;
pub(super) use notice::{signing_key, whsec};
pub(super) use reason::Reason;
