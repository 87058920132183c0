//! `cargo bench --bench check`: whether reading a mailbox stays as quick when many acked messages lie behind the cursor.
//!
//! Flags, after `--`: `--seconds`, `--rounds`, `--only empty,behind-50,behind-50000`, `--connections 1`.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

#[path = "../stage/mod.rs"]
#[expect(dead_code, reason = "each bench uses its part of it")]
mod stage;

use std::time::Duration;

use sqlx::PgConnection;
use stage::agents::{self, Agent, PUBLIC};
use stage::load::{BODY, Measured, Work, measure};
use stage::plan::{Plan, Turn, turns};
use stage::report::Report;
use stage::results::{Bound, Results};
use stage::wire::Wire;
use stage::{Stage, say};

/// The mailboxes, and how many acked messages each holds.
const BOXES: [(&str, i64); 3] = [("empty", 0), ("behind-50", 50), ("behind-50000", 50_000)];

fn main() {
    let plan = Plan::from_arguments(Plan {
        seconds: Duration::from_secs(2),
        rounds: 7,
        only: BOXES.map(|(work, _)| work).to_vec(),
        connections: vec![1],
        streams: 0,
    });
    stage::run(run(&plan));
}

async fn run(plan: &Plan) {
    let stage = Stage::set().await;
    let owners = fill(&mut stage.connect().await).await;
    let mut report = Report::default();
    for round in 0..plan.rounds {
        for turn in all_turns(plan, round) {
            let place = BOXES.iter().position(|(work, _)| *work == turn.work).unwrap();
            let mut team = Vec::new();
            for _ in 0..turn.connections {
                team.push(Reader {
                    wire: Wire::open(stage.host(0)).await,
                    path: format!("/api/v1/mailbox/messages?since={}", BOXES[place].1),
                    key: owners[place].key.clone(),
                });
            }
            report.note(round, turn, measure(&stage, team, plan.seconds).await);
            say(".");
        }
    }
    let mut results = Results::new("check", &stage.machine().await, plan);
    stage.strike().await;
    let base = |work: &str| (work != "empty").then_some("empty");
    let table = report.table(&all_turns(plan, 0), base, &mut results);
    let ratio = |work| {
        let turn = Turn { work, connections: plan.most() };
        report.ratio(turn, "empty", |it: &Measured| it.percentile(0.5))
    };
    results.row("p50 with 50 behind, of empty", "times", ratio("behind-50"));
    let behind = ratio("behind-50000");
    results.target("p50 with 50,000 behind, of empty", "times", behind, Bound::AtMost(1.3));
    results.keep();
    say(&format!("\n{}\n\n{table}\n{}", results.taken, results.verdict()));
}

fn all_turns(plan: &Plan, round: usize) -> Vec<Turn> {
    plan.connections.iter().flat_map(|&count| turns(plan.only.clone(), count, round)).collect()
}

/// Reads its mailbox from its end.
struct Reader {
    wire: Wire,
    path: String,
    key: String,
}

impl Work for Reader {
    async fn once(&mut self) -> usize {
        let (status, answer) = self.wire.get(&self.path, &self.key).await;
        let is_empty = answer.starts_with(r#"{"messages":[],"#) && !answer.contains("cursor_ahead");
        assert!(status == 200 && is_empty, "{status} {answer}");
        1
    }
}

/// Makes the owners of the mailboxes and fills these with what was sent and acked long ago.
async fn fill(db: &mut PgConnection) -> Vec<Agent> {
    let mut agents = agents::make(db, PUBLIC, BOXES.len() + 1).await;
    let sender = agents.pop().unwrap();
    for (agent, (_, count)) in agents.iter().zip(BOXES) {
        sqlx::query(FILL)
            .bind(agent.id)
            .bind(sender.id)
            .bind(count)
            .bind(BODY)
            .execute(&mut *db)
            .await
            .unwrap();
    }
    // As a database that has run for a while.
    sqlx::raw_sql("vacuum analyze").execute(db).await.unwrap();
    agents
}

/// The mailbox's counters say what its entries say: all of them acked, none open.
const FILL: &str = "-- check.fill
    with owner as (
        select org_id, agent_id from mailbox where agent_id = $1
    ), letter as (
        select org_id, agent_id, seq, gen_random_uuid() as message_id from owner, generate_series(1, $3) seq
    ), stored as (
        insert into message (org_id, message_id, sender_agent_id, sender_name, recipient_agent_id, message_type, body,
            created_at)
        select org_id, message_id, $2, 'sender', agent_id, 'direct', $4, now() from letter
    ), entered as (
        insert into inbox_entry (org_id, agent_id, seq, message_id, sender_agent_id, counted, ack_requested, acked_at)
        select org_id, agent_id, seq, message_id, $2, true, false, now() from letter
    )
    update mailbox m set last_seq = $3, acked_total = $3 from owner o
    where m.org_id = o.org_id and m.agent_id = o.agent_id";
