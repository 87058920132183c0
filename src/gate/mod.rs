//! Who may call: what a key looks like, and where a client comes from.

pub mod credential;
pub mod network;
