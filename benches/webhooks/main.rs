//! `cargo bench --bench webhooks`: how soon endpoints are told of mail, while some of them are dead.
//!
//! 10,000 agents have an active webhook each, at endpoints in this process. A dead one takes connections and says
//! nothing, or is not there at all. 500 messages a second are posted, whatever comes back. Flags, after `--`:
//! `--seconds`, `--rounds`.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

mod hooks;
mod mail;
#[path = "../../tests/it/webhooks/receiver.rs"]
#[expect(dead_code, reason = "the tests' endpoint, of which a bench needs a part")]
mod receiver;
#[path = "../stage/mod.rs"]
#[expect(dead_code, reason = "each bench uses its part of it")]
mod stage;

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use mail::Sent;
use receiver::{Manners, Receiver};
use stage::agents::{self, Agent, PUBLIC};
use stage::load::percentile;
use stage::plan::Plan;
use stage::results::{Bound, Results};
use stage::spread::Spread;
use stage::{Stage, say};

const AGENTS: usize = 10_000;
/// Endpoints' hosts.
const HOSTS: usize = 20;
/// One agent of so many has a dead endpoint.
const DEAD: usize = 100;
/// Where nobody listens.
const NOBODY: &str = "127.0.0.1:9";
/// How long to wait for the last notices.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came of one round.
struct Noted {
    /// From the time a message was to leave to its notice, ascending; of those to the living.
    waits: Vec<Duration>,
    /// How many of those were never told of.
    untold: usize,
    notices: usize,
}

fn main() {
    let plan = Plan::from_arguments(Plan {
        seconds: Duration::from_secs(20),
        rounds: 3,
        only: vec!["told"],
        connections: Vec::new(),
        streams: 0,
    });
    stage::run(run(&plan));
}

async fn run(plan: &Plan) {
    let authority = receiver::authority().into_os_string();
    let stage =
        Stage::set_with(vec![("WAYPOST_EGRESS_CA", authority), ("WAYPOST_UNSAFE_EGRESS", "loopback".into())])
            .await;
    let agents = agents::make(&mut stage.connect().await, PUBLIC, AGENTS).await;
    let mut notes = Vec::new();
    for _ in 0..plan.rounds {
        notes.push(round(&stage, &agents, plan.seconds).await);
        say(".");
    }
    let mut results = Results::new("webhooks", &stage.machine().await, plan);
    stage.strike().await;
    let spread = |figure: &dyn Fn(&Noted) -> f64| Spread::of(notes.iter().map(figure));
    let wait = |share: f64| spread(&|note| percentile(&note.waits, share));
    results.row("messages to the living", "", spread(&|note| (note.waits.len() + note.untold) as f64));
    results.row("notices", "", spread(&|note| note.notices as f64));
    results.row("told, p50", "ms", wait(0.5));
    results.row("told, the last", "ms", wait(1.0));
    results.target("told, p99", "ms", wait(0.99), Bound::AtMost(2_000.0));
    results.target("never told", "", spread(&|note| note.untold as f64), Bound::AtMost(0.0));
    results.keep();
    say(&format!("\n{}\n\n{}\n{}", results.taken, results.listed(), results.verdict()));
}

/// Endpoints of its own, so that no round hears of another's mail or of what has failed there.
async fn round(stage: &Stage, agents: &[Agent], time: Duration) -> Noted {
    let mut hosts = Vec::new();
    for _ in 0..HOSTS {
        hosts.push(Receiver::open().await);
    }
    let hanging = Receiver::open().await;
    for place in (0..agents.len()).step_by(DEAD) {
        hanging.behave(&format!("/{place}"), Manners::Hangs);
    }
    let url = |place: usize| match (place.is_multiple_of(DEAD), place.is_multiple_of(2 * DEAD)) {
        (true, true) => format!("https://{NOBODY}/{place}"),
        (true, false) => hanging.url(&format!("/{place}")),
        _ => hosts[place % HOSTS].url(&format!("/{place}")),
    };
    let urls: Vec<String> = (0..agents.len()).map(url).collect();
    hooks::give(&mut stage.connect().await, agents, &urls).await;
    let sent = mail::send(stage, agents, time).await;
    let living: Vec<&Sent> = sent.iter().filter(|sent| !sent.to.is_multiple_of(DEAD)).collect();
    let ended = Instant::now();
    let mut told = told(&hosts);
    while ended.elapsed() < PATIENCE && living.iter().any(|sent| !told.contains_key(&sent.id)) {
        sleep(Duration::from_millis(100)).await;
        told = self::told(&hosts);
    }
    let wait = |sent: &&Sent| Some(told.get(&sent.id)?.saturating_duration_since(sent.at));
    let mut waits: Vec<Duration> = living.iter().filter_map(wait).collect();
    waits.sort_unstable();
    let notices = hosts.iter().map(|host| host.all().len()).sum();
    Noted { untold: living.len() - waits.len(), waits, notices }
}

/// When each message was first told of.
fn told(hosts: &[Receiver]) -> HashMap<String, Instant> {
    let mut told = HashMap::new();
    for notice in hosts.iter().flat_map(Receiver::all) {
        for id in notice.ids() {
            told.entry(id).or_insert(notice.at);
        }
    }
    told
}
