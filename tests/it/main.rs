//! Tests of the whole program against a real PostgreSQL, in one binary.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod agent_path;
mod batches;
mod canary;
mod chores;
mod claims;
mod contract;
mod cuts;
mod docs;
mod front;
mod gate;
mod grouping;
mod hangups;
mod house;
mod mailbox;
mod malformed;
mod mcp;
mod model;
mod plans;
mod private_cluster;
mod processes;
mod program;
mod proxy;
mod races;
mod rates;
mod readme;
mod rest;
mod streams;
mod wakes;
mod walks;
mod webhooks;
