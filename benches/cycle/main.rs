//! `cargo bench --bench cycle`: the whole life of messages over REST. Five are sent to one mailbox, its owner claims
//! five and acks five; how many messages a second is that, of a bare insert-and-commit each?
//!
//! Flags, after `--`: `--seconds`, `--rounds`, `--only insert,cycle`, `--connections 16,64`.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

#[path = "../stage/mod.rs"]
#[expect(dead_code, reason = "each bench uses its part of it")]
mod stage;

use std::time::Duration;

use serde_json::{Value, json};
use stage::agents::{self, Agent, PUBLIC};
use stage::load::{BODY, Dice, Insert, Measured, Work, measure};
use stage::plan::{Plan, Turn, turns};
use stage::report::Report;
use stage::results::{Bound, Results};
use stage::wire::Wire;
use stage::{Stage, say};

const AGENTS: usize = 1_000;
/// Messages of one cycle.
const BATCH: usize = 5;

fn main() {
    let plan = Plan::from_arguments(Plan {
        seconds: Duration::from_secs(2),
        rounds: 5,
        only: vec!["insert", "cycle"],
        connections: vec![16, 64],
        streams: 0,
    });
    stage::run(run(&plan));
}

async fn run(plan: &Plan) {
    let stage = Stage::set().await;
    let agents = agents::make(&mut stage.connect().await, PUBLIC, AGENTS).await;
    let mut report = Report::default();
    for round in 0..plan.rounds {
        for turn in all_turns(plan, round) {
            let team = team(&stage, &agents, turn, round).await;
            report.note(round, turn, measure(&stage, team, plan.seconds).await);
            say(".");
        }
    }
    let mut results = Results::new("cycle", &stage.machine().await, plan);
    stage.strike().await;
    let base = |work: &str| (work == "cycle").then_some("insert");
    let table = report.table(&all_turns(plan, 0), base, &mut results);
    let ratio = report.ratio(Turn { work: "cycle", connections: 64 }, "insert", Measured::rate);
    results.target("cycle at 64, of insert", "", ratio, Bound::AtLeast(0.35));
    results.keep();
    say(&format!(
        "\n{}\np50 and p99 of a cycle are of its {BATCH} sends, claim and ack together\n\n{table}\n{}",
        results.taken,
        results.verdict()
    ));
}

fn all_turns(plan: &Plan, round: usize) -> Vec<Turn> {
    plan.connections.iter().flat_map(|&count| turns(plan.only.clone(), count, round)).collect()
}

enum Worker {
    Insert(Insert),
    Cycle(Box<Cycle>),
}

/// One connection with mailboxes that no other writes to, so that it claims what it sent.
struct Cycle {
    wire: Wire,
    sender: Agent,
    recipients: Vec<Agent>,
    dice: Dice,
    mark: String,
    count: u64,
}

async fn team(stage: &Stage, agents: &[Agent], turn: Turn, round: usize) -> Vec<Worker> {
    let Turn { work, connections } = turn;
    let mut team = Vec::with_capacity(connections);
    for place in 0..connections {
        team.push(match work {
            "insert" => Worker::Insert(Insert::open(stage).await),
            _ => Worker::Cycle(Box::new(Cycle {
                wire: Wire::open(stage.host(place)).await,
                sender: agents[(place + 1) % agents.len()].clone(),
                recipients: agents.iter().skip(place).step_by(connections).cloned().collect(),
                dice: Dice::new(place),
                mark: format!("{round}-{connections}-{place}"),
                count: 0,
            })),
        });
    }
    team
}

impl Work for Worker {
    async fn once(&mut self) -> usize {
        match self {
            Worker::Insert(insert) => insert.once().await,
            Worker::Cycle(cycle) => cycle.once().await,
        }
    }
}

impl Cycle {
    async fn once(&mut self) -> usize {
        let recipient = self.dice.choose(&self.recipients);
        for _ in 0..BATCH {
            self.count += 1;
            let letter = json!({
                "recipient_agent_id": recipient.id, "body": BODY,
                "client_message_id": format!("{}-{}", self.mark, self.count),
            });
            call(&mut self.wire, "/api/v1/mailbox/messages", &self.sender, &letter).await;
        }
        let claim = json!({ "limit": BATCH });
        let claimed = call(&mut self.wire, "/api/v1/mailbox/claim", recipient, &claim).await;
        let messages = claimed["messages"].as_array().unwrap();
        let ids: Vec<&Value> = messages.iter().map(|message| &message["id"]).collect();
        let ack = json!({ "message_ids": ids });
        let acked = call(&mut self.wire, "/api/v1/mailbox/ack", recipient, &ack).await;
        assert_eq!(acked["acked"], BATCH, "a cycle acks what it sent");
        BATCH
    }
}

async fn call(wire: &mut Wire, path: &str, agent: &Agent, arguments: &Value) -> Value {
    let (status, answer) = wire.post(path, &agent.key, &arguments.to_string()).await;
    assert!(matches!(status, 200 | 201), "{status} {answer}");
    serde_json::from_str(answer).unwrap()
}
