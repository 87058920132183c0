//! `cargo bench --bench webhooks`: how soon endpoints are told of mail, while some of them are dead.
//!
//! It starts a private Postgres in a temporary folder, one pod as a process of its own and endpoints in this one,
//! gives every agent an active webhook, and posts at a steady rate, whatever comes back. A dead endpoint takes
//! connections and says nothing, or is not there at all. After `--`: `--agents N`, `--rate N` messages a second and
//! `--seconds N` for how long.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot go on ends")]

#[path = "../../tests/it/webhooks/receiver.rs"]
#[expect(dead_code, reason = "the tests' endpoint, of which a bench needs a part")]
mod receiver;
mod stage;

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use receiver::{Manners, Receiver};
use stage::{Agent, Stage};

/// Endpoints' hosts.
const HOSTS: usize = 20;
/// One agent of so many has a dead endpoint.
const DEAD: usize = 100;
/// Who writes, each on a connection of its own.
const WRITERS: usize = 32;
/// How long to wait for the last notices.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run());
}

async fn run() {
    let (agents, rate, seconds) =
        (option("--agents", 10_000), option("--rate", 500), option("--seconds", 20));
    let mut hosts = Vec::new();
    for _ in 0..HOSTS {
        hosts.push(Receiver::open().await);
    }
    let hanging = Receiver::open().await;
    let nobody = "127.0.0.1:9".to_owned();
    let stage = Stage::set(agents).await;
    let url = |number: usize| match (number.is_multiple_of(DEAD), number.is_multiple_of(2 * DEAD)) {
        (true, true) => format!("https://{nobody}/{number}"),
        (true, false) => hanging.url(&format!("/{number}")),
        _ => hosts[number % HOSTS].url(&format!("/{number}")),
    };
    for number in (0..agents).step_by(DEAD) {
        hanging.behave(&format!("/{number}"), Manners::Hangs);
    }
    stage.hook(url).await;
    let sent = send(&stage, rate, seconds).await;
    let living = || sent.iter().filter(|sent| !sent.to.is_multiple_of(DEAD));
    let begun = Instant::now();
    let mut told = told(&hosts);
    while begun.elapsed() < PATIENCE && living().any(|sent| !told.contains_key(&sent.id)) {
        sleep(Duration::from_millis(100)).await;
        told = self::told(&hosts);
    }
    let mut waits: Vec<Duration> =
        living().filter_map(|sent| Some(told.get(&sent.id)?.saturating_duration_since(sent.at))).collect();
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_millis();
    say(&format!(
        "{agents} agents, {rate} messages a second for {seconds} s: {} to the living, {} never told\n\
         from the wish to send to the notice: p50 {} ms, p99 {} ms, most {} ms\n\
         notices {}, states {:?}\n",
        living().count(),
        living().count() - waits.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        hosts.iter().map(|host| host.requests().len()).sum::<usize>(),
        stage.states().await,
    ));
    stage.strike().await;
}

/// A message, when it was to leave, and the number of its recipient.
struct Sent {
    id: String,
    to: usize,
    at: Instant,
}

/// Sends at a steady rate, whatever the answers take.
async fn send(stage: &Stage, rate: usize, seconds: usize) -> Vec<Sent> {
    let begin = Instant::now() + Duration::from_millis(100);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (host, agents): (String, Vec<Agent>) = (stage.host.clone(), stage.agents.clone());
        writers.spawn(async move {
            let http = reqwest::Client::new();
            let mut sent = Vec::new();
            for number in (writer..rate * seconds).step_by(WRITERS) {
                let at = begin + Duration::from_secs_f64(number as f64 / rate as f64);
                sleep_until(at).await;
                // Far from each other, and each as often as any other.
                let to = number * 7_919 % agents.len();
                let letter =
                    serde_json::json!({ "recipient_agent_id": agents[to].id, "body": "x".repeat(200) });
                let url = format!("http://{host}/api/v1/mailbox/messages");
                let answer =
                    http.post(url).bearer_auth(&agents[writer].key).json(&letter).send().await.unwrap();
                let answer: serde_json::Value = answer.json().await.unwrap();
                sent.push(Sent { id: answer["message_id"].as_str().unwrap().to_owned(), to, at });
            }
            sent
        });
    }
    writers.join_all().await.into_iter().flatten().collect()
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

fn option(name: &str, usual: usize) -> usize {
    let mut words = std::env::args().skip_while(|word| word != name);
    words.nth(1).map_or(usual, |value| value.parse().expect("a number"))
}

/// Standard output is the bench's product.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}
