//! Tests of the whole program against a real PostgreSQL, in one binary.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod contract;
mod front;
mod house;
mod mcp;
mod private_cluster;
mod rest;
mod walks;
