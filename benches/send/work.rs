//! The work itself, and the measuring of it.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use tokio::task::JoinSet;

use crate::cpu::Cpu;
use crate::plan::{Kind, Turn};
use crate::stage::{Agent, Stage};
use crate::wire::Wire;

/// What one turn came to.
#[derive(Debug, Clone)]
pub struct Measured {
    /// From the first start to the last end.
    pub took: Duration,
    /// CPU used meanwhile.
    pub cpu: Cpu,
    /// How long each call took, ascending.
    pub latencies: Vec<Duration>,
}

/// One connection and what it does over and over.
pub struct Worker {
    line: Line,
    /// Distinct for every worker of a run: the beginning of its client_message_ids.
    mark: String,
    recipients: Vec<Agent>,
    dice: u64,
    count: u64,
}

enum Line {
    Database(PgConnection),
    Http { wire: Wire, kind: Kind, headers: String },
}

/// So many workers with open connections, each of an agent of its own.
pub async fn team(stage: &Stage, turn: Turn, mark: &str) -> Vec<Worker> {
    let Turn { kind, connections } = turn;
    let mut team = Vec::with_capacity(connections);
    for (place, agent) in stage.agents.iter().cycle().step_by(13).take(connections).enumerate() {
        let line = match kind {
            Kind::Insert => Line::Database(stage.connect().await),
            _ => Line::Http { wire: Wire::open(&stage.host).await, kind, headers: headers(kind, agent) },
        };
        team.push(Worker {
            line,
            mark: format!("{mark}-{connections}-{kind}-{place}"),
            recipients: stage.agents.clone(),
            dice: 0x9E37_79B9_7F4A_7C15 ^ ((place as u64 + 1) << 17),
            count: 0,
        });
    }
    team
}

/// Lets the team work for so long.
pub async fn measure(stage: &Stage, team: Vec<Worker>, time: Duration) -> (Vec<Worker>, Measured) {
    let (before, began) = (stage.cpu(), Instant::now());
    let mut working = JoinSet::new();
    for mut worker in team {
        working.spawn(async move {
            let mut latencies = Vec::with_capacity(1 << 15);
            while began.elapsed() < time {
                let start = Instant::now();
                worker.once().await;
                latencies.push(start.elapsed());
            }
            (worker, latencies)
        });
    }
    let (team, latencies): (Vec<Worker>, Vec<Vec<Duration>>) = working.join_all().await.into_iter().unzip();
    let (took, cpu) = (began.elapsed(), stage.cpu().since(before));
    let mut latencies = latencies.concat();
    latencies.sort_unstable();
    (team, Measured { took, cpu, latencies })
}

impl Worker {
    async fn once(&mut self) {
        self.count += 1;
        let recipient = &self.recipients[draw(&mut self.dice, self.recipients.len())].id;
        match &mut self.line {
            Line::Database(db) => insert(db, self.count).await,
            Line::Http { wire, kind, headers } => {
                let key = format!("{}-{}", self.mark, self.count);
                call(wire, *kind, headers, recipient, &key).await;
            }
        }
    }
}

async fn insert(db: &mut PgConnection, number: u64) {
    let insert = sqlx::query("insert into floor (number, body) values ($1, $2)");
    insert.bind(number.cast_signed()).bind(BODY).execute(db).await.unwrap();
}

async fn call(wire: &mut Wire, kind: Kind, headers: &str, recipient: &str, key: &str) {
    let (path, body, sign) = match kind {
        Kind::Mcp => ("/mcp", tools_call(&arguments(recipient, Some(key))), "\"structuredContent\""),
        Kind::List => ("/mcp", LIST.to_owned(), "\"mailbox_send\""),
        Kind::RestNoKey => ("/api/v1/mailbox/messages", arguments(recipient, None), "\"message_id\""),
        _ => ("/api/v1/mailbox/messages", arguments(recipient, Some(key)), "\"message_id\""),
    };
    let (status, answer) = wire.post(path, headers, &body).await;
    let failed =
        !matches!(status, 200 | 201) || !answer.contains(sign) || answer.contains("\"isError\":true");
    assert!(!failed, "{status} {answer}");
}

fn arguments(recipient: &str, key: Option<&str>) -> String {
    let key = key.map(|key| format!(r#","client_message_id":"{key}""#)).unwrap_or_default();
    format!(r#"{{"recipient_agent_id":"{recipient}","body":"{BODY}"{key}}}"#)
}

macro_rules! meta {
    () => {
        r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#
    };
}

const LIST: &str = concat!(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"#, meta!(), "}}");

fn tools_call(arguments: &str) -> String {
    format!(
        concat!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"mailbox_send","arguments":{},"#,
            "{}}}}}"
        ),
        arguments,
        meta!()
    )
}

fn headers(kind: Kind, agent: &Agent) -> String {
    const MODERN: &str =
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n";
    let key = format!("authorization: Bearer {}\r\n", agent.key);
    match kind {
        Kind::Mcp => format!("{key}{MODERN}mcp-method: tools/call\r\nmcp-name: mailbox_send\r\n"),
        Kind::List => format!("{key}{MODERN}mcp-method: tools/list\r\n"),
        _ => key,
    }
}

/// 200 bytes.
const BODY: &str = "The tide table for the week is ready: high water comes a little later every day, and the harbour mas\
    ter asks that boats of more than two metres draught leave on the morning ebb. Reply if you need it..";
const _: () = assert!(BODY.len() == 200);

/// A number below `sides` (xorshift: even enough for choosing recipients).
fn draw(dice: &mut u64, sides: usize) -> usize {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    (*dice % sides as u64) as usize
}
