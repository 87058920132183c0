//! Waypost, the inbox for agents. This file is the map of the tree.

pub mod config;
pub mod doors;
pub mod telemetry;
