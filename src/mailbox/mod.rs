//! The mailbox toolset: register, send, check, claim and ack.

pub mod names;
pub mod wallet;
