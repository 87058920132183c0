//! `cargo bench --bench send`: how much of a bare insert-and-commit a message through the doors reaches.
//!
//! It starts a private Postgres in a temporary folder and one pod as a process of its own, lets all kinds of
//! work take turns in one run, and prints rates, latencies and CPU. Ratios are taken within a round, between
//! neighbours in time, so that what else the machine does weighs on both sides. After `--`: `--seconds N` and
//! `--rounds N` for how long, `--only insert,rest` and `--connections 64` for a part of it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

mod cpu;
mod plan;
mod report;
mod stage;
mod wire;
mod work;

use std::io::Write;
use std::time::Duration;

use plan::Plan;
use report::Report;
use stage::Stage;

/// Before each measured turn: connections open, plans and caches get warm.
const WARM_UP: Duration = Duration::from_millis(300);

fn main() {
    let plan = Plan::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(&plan));
}

async fn run(plan: &Plan) {
    let stage = Stage::set().await;
    let mut report = Report::new(stage.machine().await);
    for round in 0..plan.rounds {
        for turn in plan.turns(round) {
            let team = work::team(&stage, turn, &format!("{round}")).await;
            let (team, _) = work::measure(&stage, team, WARM_UP).await;
            let (_, measured) = work::measure(&stage, team, plan.seconds).await;
            report.note(round, turn, measured);
            say(".");
        }
    }
    stage.strike().await;
    say(&format!("\n{}", report.text(plan)));
}

/// Standard output is the bench's product.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}
