//! `cargo bench --bench idle`: what streams cost that are open and told nothing: memory of the pod for each, CPU of the
//! pod, and queries to the database.
//!
//! Flags, after `--`: `--streams` (a pod takes 20,000 connections at most), `--seconds` (how long CPU and queries are
//! counted), `--rounds` (each with a new pod).
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

#[path = "../stage/mod.rs"]
#[expect(dead_code, reason = "each bench uses its part of it")]
mod stage;

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use stage::agents::{self, Agent, PUBLIC};
use stage::crowd::Crowd;
use stage::plan::Plan;
use stage::results::{Bound, Results};
use stage::spread::Spread;
use stage::{Stage, say};

/// Streams that come and go before the pod is weighed, so that what it makes once is made.
const BEFORE: usize = 100;
/// From the last opening, or the last closing, until the pod is looked at.
const SETTLE: Duration = Duration::from_secs(5);

/// What one round came to.
struct Noted {
    bytes_each: f64,
    pod_percent: f64,
    postgres_percent: f64,
    queries: Option<f64>,
}

fn main() {
    let plan = Plan::from_arguments(Plan {
        seconds: Duration::from_secs(10),
        rounds: 1,
        only: vec!["idle"],
        connections: Vec::new(),
        streams: 10_000,
    });
    stage::run(run(&plan));
}

async fn run(plan: &Plan) {
    let mut stage = Stage::set_counting_queries().await;
    let agents = agents::make(&mut stage.connect().await, PUBLIC, plan.streams).await;
    let mut notes = Vec::new();
    for _ in 0..plan.rounds {
        stage.have_pods(0);
        stage.have_pods(1);
        notes.push(round(&stage, &agents, plan.seconds).await);
        say(".");
    }
    let mut results = Results::new("idle", &stage.machine().await, plan);
    stage.strike().await;
    let spread = |figure: fn(&Noted) -> Option<f64>| Spread::of(notes.iter().filter_map(figure));
    let kibibytes = spread(|note| Some(note.bytes_each / 1024.0));
    results.row("streams", "open", Spread::of([plan.streams as f64]));
    results.row("Postgres", "% of a core", spread(|note| Some(note.postgres_percent)));
    results.target("resident, each stream", "KiB", kibibytes, Bound::AtMost(16.0));
    results.target("pod", "% of a core", spread(|note| Some(note.pod_percent)), Bound::AtMost(3.0));
    results.target("queries in total", "a second", spread(|note| note.queries), Bound::AtMost(2.0));
    results.keep();
    say(&format!("\n{}\n\n{}\n{}", results.taken, results.listed(), results.verdict()));
    if notes.iter().any(|note| note.queries.is_none()) {
        say("queries were not counted: this Postgres comes without pg_stat_statements\n");
    }
}

async fn round(stage: &Stage, agents: &[Agent], time: Duration) -> Noted {
    drop(Crowd::open(stage, &agents[..BEFORE.min(agents.len())]).await);
    tokio::time::sleep(SETTLE).await;
    let before = stage.pods[0].resident();
    let mut crowd = Crowd::open(stage, agents).await;
    tokio::time::sleep(SETTLE).await;
    let after = stage.pods[0].resident();
    let mut db = stage.connect().await;
    let (queries, cpu, began) = (queries(&mut db).await, stage.cpu(), Instant::now());
    tokio::time::sleep(time).await;
    let (used, took) = (stage.cpu().since(cpu), began.elapsed().as_secs_f64());
    let counted = self::queries(&mut db).await;
    crowd.must_be_whole();
    Noted {
        bytes_each: after.saturating_sub(before) as f64 * 1024.0 / agents.len() as f64,
        pod_percent: used.pod.as_secs_f64() / took * 100.0,
        postgres_percent: used.postgres.as_secs_f64() / took * 100.0,
        queries: queries.zip(counted).map(|(before, after)| (after - before) as f64 / took),
    }
}

/// Statements that clients have sent so far, but for those of this bench.
async fn queries(db: &mut PgConnection) -> Option<i64> {
    let installed = "-- idle.installed
        select exists (select from pg_extension where extname = 'pg_stat_statements')";
    if !sqlx::query_scalar::<_, bool>(installed).fetch_one(&mut *db).await.unwrap() {
        return None;
    }
    let count = "-- idle.queries
        select coalesce(sum(calls), 0)::bigint from pg_stat_statements
        where toplevel and query not like '-- idle.%'";
    Some(sqlx::query_scalar(count).fetch_one(db).await.unwrap())
}
