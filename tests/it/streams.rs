//! Live streams of a mailbox: over SSE, over MCP, and by name.

mod drain;
mod faults;
mod frames;
mod listener;
mod refusals;
mod replay;
mod stopped;
mod ticket;
mod tool;

use std::path::Path;

use serde_json::{Value, json};
use waypost::config::{Caps, Config, Holds};

use crate::house::{Agent, House, settings};
use crate::program::{self, Program};
pub use listener::Listener;
pub use replay::fill;

/// The route.
pub const STREAM: &str = "/api/v1/inbox/stream";

/// No caps and no limit on streams: for tests that are about neither.
pub fn boundless() -> Config {
    let caps = Caps { mailbox: 0, sender: 0 };
    Config { caps, holds: Holds { agent: 0, org: 0, pod: 0 }, ..settings() }
}

/// A pod like those, in a process of its own.
pub async fn boundless_program(house: &House, data_dir: &Path) -> Program {
    let mut command = program::command_on(&house.options, data_dir);
    for limit in ["HOLDS_PER_AGENT", "HOLDS_PER_ORG", "HOLDS_PER_POD", "CAP_MAILBOX", "CAP_SENDER"] {
        command.env(format!("WAYPOST_{limit}"), "0");
    }
    Program::start(command).await
}

/// Pods without bounds, a sender and a reader whose welcome is acked: its mailbox stands at seq 1.
pub async fn stage(pods: usize) -> (House, Agent, Agent) {
    let house = House::with_pods(pods, boundless()).await;
    let (sender, reader) = (house.register().await, house.register().await);
    let mail = house.ok(&reader, "mailbox_check", json!({})).await;
    ack(&house, &reader, &[mail["messages"][0]["id"].clone()]).await;
    (house, sender, reader)
}

pub async fn ack(house: &House, reader: &Agent, ids: &[Value]) {
    house.ok(reader, "mailbox_ack", json!({ "message_ids": ids })).await;
}
