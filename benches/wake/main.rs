//! `cargo bench --bench wake`: how long after a commit through one pod a stream at another pod tells of it, with nothing
//! else to do and with 2,000 sends a second beside it, against a bare `pg_notify` and a bare `LISTEN`.
//!
//! Flags, after `--`: `--seconds`, `--rounds`, `--only waypost,bare,waypost-busy,bare-busy`.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

mod background;
#[path = "../stage/mod.rs"]
#[expect(dead_code, reason = "each bench uses its part of it")]
mod stage;
mod waker;

use std::time::{Duration, Instant};

use background::Background;
use stage::agents::{self, PUBLIC};
use stage::load::percentile;
use stage::plan::{Plan, turns};
use stage::results::{Bound, Results};
use stage::spread::Spread;
use stage::{Stage, say};
use waker::{Bare, Wake, Waker, Waypost};

const QUIET: [&str; 2] = ["bare", "waypost"];
const BUSY: [&str; 2] = ["bare-busy", "waypost-busy"];
/// Agents that write to each other in the background.
const AGENTS: usize = 1_000;
/// Between one wake and the next call: longer than any hold-off, and not in step with one.
const PAUSES: [u64; 5] = [11, 7, 13, 9, 12];

/// What came of one turn.
struct Noted {
    work: &'static str,
    wakes: Vec<Wake>,
    beside: Option<f64>,
}

fn main() {
    let plan = Plan::from_arguments(Plan {
        seconds: Duration::from_secs(5),
        rounds: 5,
        only: [QUIET, BUSY].concat(),
        connections: Vec::new(),
        streams: 0,
    });
    stage::run(run(&plan));
}

async fn run(plan: &Plan) {
    let mut stage = Stage::set().await;
    stage.have_pods(2);
    let agents = agents::make(&mut stage.connect().await, PUBLIC, AGENTS).await;
    let pair = agents::make(&mut stage.connect().await, PUBLIC, 2).await;
    let mut waypost = Waypost::open(&stage, &pair[0], &pair[1]).await;
    let mut bare = Bare::open(&stage).await;
    let mut notes = Vec::new();
    for round in 0..plan.rounds {
        let order = [turns(plan.among(&QUIET), 1, round), turns(plan.among(&BUSY), 1, round)].concat();
        for turn in order {
            let busy = BUSY.contains(&turn.work);
            let background = if busy { Some(Background::start(&stage, &agents).await) } else { None };
            let wakes = match turn.work {
                "waypost" | "waypost-busy" => wakes(&mut waypost, plan.seconds).await,
                _ => wakes(&mut bare, plan.seconds).await,
            };
            notes.push(Noted { work: turn.work, wakes, beside: background.map(Background::stop) });
            say(".");
        }
    }
    let mut results = Results::new("wake", &stage.machine().await, plan);
    stage.strike().await;
    tell(&notes, plan, &mut results);
    results.keep();
    say(&format!("\n{}\n\n{}\n{}", results.taken, results.listed(), results.verdict()));
}

async fn wakes(waker: &mut impl Waker, time: Duration) -> Vec<Wake> {
    let (began, mut wakes) = (Instant::now(), Vec::new());
    for pause in PAUSES.into_iter().cycle() {
        if began.elapsed() > time {
            break;
        }
        wakes.push(waker.once().await);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    wakes
}

fn tell(notes: &[Noted], plan: &Plan, results: &mut Results) {
    for &work in &plan.only {
        for (from, time) in
            [("answer", Wake::since_answer as fn(&Wake) -> Duration), ("call", Wake::since_call)]
        {
            for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
                let label = format!("{work}, {name} from the {from}");
                results.row(label, "ms", spread(notes, work, time, share));
            }
        }
    }
    let beside = notes.iter().filter_map(|note| note.beside);
    results.row("sends beside it", "a second", Spread::of(beside));
    for (label, work, share, most) in [
        ("waypost, p50 from the answer", "waypost", 0.5, 1.0),
        ("waypost, p99 from the answer", "waypost", 0.99, 5.0),
        ("waypost-busy, p50 from the answer", "waypost-busy", 0.5, 3.0),
        ("waypost-busy, p99 from the answer", "waypost-busy", 0.99, 9.0),
    ] {
        let figure = spread(notes, work, Wake::since_answer, share);
        results.target(label, "ms", figure, Bound::AtMost(most));
    }
}

fn spread(notes: &[Noted], work: &str, time: fn(&Wake) -> Duration, share: f64) -> Option<Spread> {
    let of_work = notes.iter().filter(|note| note.work == work);
    Spread::of(of_work.map(|note| {
        let mut times: Vec<Duration> = note.wakes.iter().map(time).collect();
        times.sort_unstable();
        percentile(&times, share)
    }))
}
