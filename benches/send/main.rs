//! `cargo bench --bench send`: how much of a bare insert-and-commit a message through the doors reaches, and what
//! becomes of that when one mailbox is hot, organizations are many, or a crowd sleeps beside it.
//!
//! Ratios are taken within a round, between neighbours in time, so that what else the machine does weighs on both
//! sides. Flags, after `--`: `--seconds`, `--rounds`, `--only insert,rest`, `--connections 64`, `--streams` (sleepers).
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

#[path = "../stage/mod.rs"]
#[expect(dead_code, reason = "each bench uses its part of it")]
mod stage;
mod work;

use std::time::Duration;

use stage::crowd::Crowd;
use stage::load::{Measured, measure};
use stage::plan::{Plan, Turn, turns};
use stage::report::Report;
use stage::results::{Bound, Results};
use stage::{Stage, say};
use work::Cast;

/// In turns at every number of connections, on one pod.
const EVERYWHERE: [&str; 4] = ["insert", "rest", "rest-no-key", "mcp"];
/// Beside them at the most connections.
const AT_MOST: [&str; 2] = ["hot", "orgs"];
/// On two pods at the most connections.
const ON_TWO: [&str; 2] = ["two-pods", "sleepers"];
/// `tools/list` costs no commit; it has its own number of connections.
const LIST: Turn = Turn { work: "list", connections: 16 };

fn main() {
    let plan = Plan::from_arguments(Plan {
        seconds: Duration::from_secs_f64(1.5),
        rounds: 5,
        only: [&EVERYWHERE[..], &AT_MOST, &ON_TWO, &[LIST.work]].concat(),
        connections: vec![1, 16, 64],
        streams: 1_000,
    });
    stage::run(run(&plan));
}

async fn run(plan: &Plan) {
    let mut stage = Stage::set().await;
    let cast = Cast::gather(&stage, plan.streams).await;
    let mut report = Report::default();
    for round in 0..plan.rounds {
        for turn in all_turns(plan, round) {
            stage.have_pods(if ON_TWO.contains(&turn.work) { 2 } else { 1 });
            let crowd = match turn.work {
                "sleepers" => Some(Crowd::open(&stage, &cast.sleepers).await),
                _ => None,
            };
            let team = work::team(&stage, &cast, turn, round).await;
            report.note(round, turn, measure(&stage, team, plan.seconds).await);
            if let Some(mut crowd) = crowd {
                crowd.must_be_whole();
            }
            say(".");
        }
    }
    let mut results = Results::new("send", &stage.machine().await, plan);
    stage.strike().await;
    let table = report.table(&all_turns(plan, 0), base, &mut results);
    judge(&report, plan, &mut results);
    results.keep();
    say(&format!("\n{}\n\n{table}\n{}", results.taken, results.verdict()));
}

/// The turns of a round: what is compared stands together.
fn all_turns(plan: &Plan, round: usize) -> Vec<Turn> {
    let mut all = Vec::new();
    for &connections in &plan.connections {
        let mut works = plan.among(&EVERYWHERE);
        if connections == plan.most() {
            works.extend(plan.among(&AT_MOST));
        }
        all.extend(turns(works, connections, round));
    }
    all.extend(turns(plan.among(&ON_TWO), plan.most(), round));
    if plan.only.contains(&LIST.work) {
        all.push(LIST);
    }
    all
}

/// What a kind of work is held against.
fn base(work: &str) -> Option<&'static str> {
    match work {
        "rest" | "rest-no-key" | "mcp" => Some("insert"),
        "hot" | "orgs" => Some("rest"),
        "sleepers" => Some("two-pods"),
        _ => None,
    }
}

fn judge(report: &Report, plan: &Plan, results: &mut Results) {
    let at = |work, connections| Turn { work, connections };
    let ratio = |work, connections, base| report.ratio(at(work, connections), base, Measured::rate);
    let most = plan.most();
    for (label, figure, least) in [
        ("rest at 64, of insert", ratio("rest", 64, "insert"), 0.45),
        ("rest at 16, of insert", ratio("rest", 16, "insert"), 0.25),
        ("mcp at 64, of rest", ratio("mcp", 64, "rest"), 0.85),
        ("hot mailbox, of uniform", ratio("hot", most, "rest"), 1.0),
        ("with sleepers, of without", ratio("sleepers", most, "two-pods"), 0.95),
    ] {
        results.target(label, "", figure, Bound::AtLeast(least));
    }
    let tail = report.spread(at("rest", 64), |it| it.percentile(0.99) / it.percentile(0.5));
    results.target("rest at 64, p99 of p50", "", tail, Bound::AtMost(3.0));
    let lists = report.spread(LIST, |it| 1e6 / it.each(it.cpu.pod));
    results.target("tools/list", "a second and core", lists, Bound::AtLeast(5_000.0));
}
