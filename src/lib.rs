//! Waypost, the inbox for agents. This file is the map of the tree.
//!
//! A request enters by a door, becomes one typed command, runs in one transaction,
//! and wakes whoever waits: `doors -> gate -> call -> inbox -> postgres`, and a
//! toolset such as `mailbox` stands on `call` and `inbox`.

pub mod call;
pub mod chores;
pub mod config;
pub mod database;
pub mod doors;
pub mod egress;
pub mod error;
pub(crate) mod gate;
pub mod inbox;
pub(crate) mod instant;
pub(crate) mod keys;
pub mod mailbox;
pub mod nearest;
pub mod operator;
pub(crate) mod page;
pub mod pod;
pub mod postgres;
pub mod telemetry;
pub mod trace;
pub(crate) mod wakes;

/// All toolsets, in reading order.
pub fn registry() -> call::Registry {
    call::Registry::new(vec![mailbox::toolset()])
}
