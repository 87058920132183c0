//! Who sends to whom, and by which door.

use std::sync::Arc;

use crate::stage::Stage;
use crate::stage::agents::{self, Agent, PUBLIC};
use crate::stage::load::{BODY, Dice, Insert, Work};
use crate::stage::plan::Turn;
use crate::stage::wire::Wire;

const AGENTS: usize = 1_000;
/// Many organizations share as many agents.
const ORGS: usize = 20;

/// The agents of all turns.
pub struct Cast {
    /// Of one organization: they write to each other.
    uniform: Arc<[Agent]>,
    /// The one mailbox that gets everything.
    hot: Arc<[Agent]>,
    /// Of many organizations: they write to their own.
    orgs: Vec<Arc<[Agent]>>,
    /// They hold streams and get nothing.
    pub sleepers: Vec<Agent>,
}

impl Cast {
    /// Makes them.
    pub async fn gather(stage: &Stage, sleepers: usize) -> Cast {
        let mut db = stage.connect().await;
        let mut orgs = Vec::with_capacity(ORGS);
        for number in 0..ORGS {
            orgs.push(agents::make(&mut db, &format!("org-{number}"), AGENTS / ORGS).await.into());
        }
        Cast {
            uniform: agents::make(&mut db, PUBLIC, AGENTS).await.into(),
            hot: agents::make(&mut db, PUBLIC, 1).await.into(),
            orgs,
            sleepers: agents::make(&mut db, PUBLIC, sleepers).await,
        }
    }

    /// Who writes from this place, and to whom.
    fn roles(&self, work: &str, place: usize) -> (&Agent, Arc<[Agent]>) {
        let (senders, recipients) = match work {
            "hot" => (&self.uniform, &self.hot),
            "orgs" => (&self.orgs[place % ORGS], &self.orgs[place % ORGS]),
            _ => (&self.uniform, &self.uniform),
        };
        (&senders[place * 13 % senders.len()], recipients.clone())
    }
}

/// One connection and what it does over and over.
pub enum Worker {
    /// Straight into the database: the floor.
    Insert(Insert),
    /// Through a door.
    Caller(Box<Caller>),
}

/// A client that sends.
pub struct Caller {
    wire: Wire,
    work: &'static str,
    root: String,
    headers: String,
    recipients: Arc<[Agent]>,
    dice: Dice,
    /// Distinct for every caller of a run: the beginning of its client_message_ids.
    mark: String,
    count: u64,
}

impl Work for Worker {
    async fn once(&mut self) -> usize {
        match self {
            Worker::Insert(insert) => insert.once().await,
            Worker::Caller(caller) => caller.call().await,
        }
    }
}

/// So many workers with open connections, each of an agent of its own.
pub async fn team(stage: &Stage, cast: &Cast, turn: Turn, round: usize) -> Vec<Worker> {
    let Turn { work, connections } = turn;
    let mut team = Vec::with_capacity(connections);
    for place in 0..connections {
        if work == "insert" {
            team.push(Worker::Insert(Insert::open(stage).await));
            continue;
        }
        let (agent, recipients) = cast.roles(work, place);
        team.push(Worker::Caller(Box::new(Caller {
            wire: Wire::open(stage.host(place)).await,
            work,
            root: agent.root.clone(),
            headers: headers(work, agent),
            recipients,
            dice: Dice::new(place),
            mark: format!("{round}-{connections}-{work}-{place}"),
            count: 0,
        })));
    }
    team
}

impl Caller {
    async fn call(&mut self) -> usize {
        self.count += 1;
        let key = format!(r#","client_message_id":"{}-{}""#, self.mark, self.count);
        let recipient = self.dice.choose(&self.recipients).id;
        let arguments = |key: &str| format!(r#"{{"recipient_agent_id":"{recipient}","body":"{BODY}"{key}}}"#);
        let (path, body, sign) = match self.work {
            "mcp" => ("/mcp", tools_call(&arguments(&key)), "\"structuredContent\""),
            "list" => ("/mcp", LIST.to_owned(), "\"mailbox_send\""),
            "rest-no-key" => (MESSAGES, arguments(""), "\"message_id\""),
            _ => (MESSAGES, arguments(&key), "\"message_id\""),
        };
        let (status, answer) = self.wire.post(&format!("{}{path}", self.root), &self.headers, &body).await;
        let failed =
            !matches!(status, 200 | 201) || !answer.contains(sign) || answer.contains("\"isError\":true");
        assert!(!failed, "{status} {answer}");
        1
    }
}

const MESSAGES: &str = "/api/v1/mailbox/messages";

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

fn headers(work: &str, agent: &Agent) -> String {
    const MODERN: &str =
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n";
    let key = &agent.key;
    match work {
        "mcp" => format!("{key}{MODERN}mcp-method: tools/call\r\nmcp-name: mailbox_send\r\n"),
        "list" => format!("{key}{MODERN}mcp-method: tools/list\r\n"),
        _ => key.clone(),
    }
}
