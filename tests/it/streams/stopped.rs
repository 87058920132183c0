//! A pod stands still for ten seconds (SIGSTOP) in the middle of its work, and goes on: no other pod is frozen
//! meanwhile, and who sleeps on it hears at once of all that was sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{interval, timeout};

use super::{Listener, STREAM, boundless, boundless_program};
use crate::house::{Agent, House, until};
use crate::program::{self, Program};

const STOPPED: Duration = Duration::from_secs(10);
/// The locks of a stopped pod are gone after three seconds.
const FROZEN: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(1);
/// Those that write through the pod that is stopped.
const SENDERS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_was_stopped_wakes_all_who_sleep_on_it_and_has_frozen_no_other() {
    stop_and_go_on(async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_was_stopped_and_could_hear_nothing_meanwhile_wakes_all_who_sleep_on_it() {
    stop_and_go_on(Stage::deafen).await;
}

/// A pod that goes on, and one that is stopped.
struct Stage {
    house: House,
    stopped: Program,
    sender: Agent,
    /// Nobody writes to them before the other pod is stopped.
    sleepers: Vec<Agent>,
    /// Both pods write to them.
    busy: Vec<Agent>,
    /// Whether the pod that was stopped has gone on.
    goes_on: AtomicBool,
    _folder: TempDir,
}

/// What a stream or a held read told of, until when.
struct Heard<'a> {
    agent: &'a Agent,
    is_of_stopped: bool,
    seqs: Vec<i64>,
    /// The longest time between two messages.
    longest: Duration,
    at: Instant,
}

/// Where streams end: for each agent the seq of its last message.
type Goal = watch::Receiver<Option<Vec<(String, i64)>>>;

async fn stop_and_go_on(meanwhile: impl AsyncFn(&Stage)) {
    let stage = Stage::set().await;
    let (goal, wanted) = watch::channel(None);
    let everybody = || stage.sleepers.iter().chain(&stage.busy);
    let urls = [stage.house.url(0), stage.stopped.url.clone()];
    let streams = join_all(urls.iter().flat_map(|url| everybody().map(move |agent| (url, agent))).map(
        async |(url, agent)| {
            let request = stage.house.http().get(format!("{url}{STREAM}")).bearer_auth(&agent.key);
            let (seqs, longest) = listen(Listener::opened(request).await, agent, wanted.clone()).await;
            Heard { agent, is_of_stopped: *url == stage.stopped.url, seqs, longest, at: Instant::now() }
        },
    ));
    let reads = join_all(stage.sleepers.iter().map(|agent| stage.read(agent)));
    let stopping = async {
        until("all are asleep", async || {
            stage.held().await == (stage.sleepers.len() * 2 + stage.busy.len()) as u64
        })
        .await;
        let sending = join_all((0..SENDERS).map(|number| stage.send_through_the_stopped_pod(number)));
        let other = async {
            stage.stop_inside_a_transaction().await;
            let until = Instant::now() + STOPPED;
            meanwhile(&stage).await;
            join_all((0..4).map(|number| stage.send_through_the_other_pod(number, until))).await;
            // What the sleepers wait for is there.
            goal.send(Some(stage.ends(&stage.sleepers).await)).unwrap();
            stage.stopped.signal(Signal::SIGCONT);
            let woken = Instant::now();
            stage.goes_on.store(true, Ordering::Relaxed);
            woken
        };
        let (acknowledged, woken) = join(sending, other).await;
        goal.send(Some(stage.ends(everybody()).await)).unwrap();
        (acknowledged.concat(), woken)
    };
    let ((streams, reads), (acknowledged, woken)) =
        timeout(PATIENCE, join(join(streams, reads), stopping)).await.unwrap();

    for heard in streams.into_iter().chain(reads) {
        stage.judge(&heard, woken).await;
    }
    stage.has_once(&acknowledged).await;
    stage.stopped.signal(Signal::SIGTERM);
    let ended = stage.stopped.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

impl Stage {
    async fn set() -> Stage {
        let house = House::with_pods(1, boundless()).await;
        let folder = program::folder();
        let stopped = boundless_program(&house, folder.path()).await;
        let sender = house.register().await;
        let sleepers = house.register_many(4).await;
        let busy = house.register_many(2).await;
        Stage { house, stopped, sender, sleepers, busy, goes_on: AtomicBool::new(false), _folder: folder }
    }

    /// A read that is held on the pod that is stopped.
    async fn read<'a>(&self, agent: &'a Agent) -> Heard<'a> {
        let read =
            self.stopped.call(agent, "mailbox_check", json!({ "wait": 25, "since": 1, "limit": 100 })).await;
        let messages = read.body["messages"].as_array().unwrap();
        assert!(!messages.is_empty(), "it was not woken: {}", read.body);
        let seqs = [1].into_iter().chain(messages.iter().map(|message| message["seq"].as_i64().unwrap()));
        Heard {
            agent,
            is_of_stopped: true,
            seqs: seqs.collect(),
            longest: Duration::ZERO,
            at: Instant::now(),
        }
    }

    /// No gap, no repeat, and in time.
    async fn judge(&self, heard: &Heard<'_>, woken: Instant) {
        let took = heard.at - woken;
        assert_eq!(heard.seqs, self.stored(heard.agent).await, "told after {took:?}");
        let is_sleeper = self.sleepers.iter().any(|sleeper| sleeper.id == heard.agent.id);
        assert!(!is_sleeper || took < SOON, "woken after {took:?}");
        let longest = heard.longest;
        assert!(heard.is_of_stopped || longest < FROZEN, "the other pod's stood still for {longest:?}");
    }

    /// Writes to the busy ones until the pod goes on, each letter until it is acknowledged: their keys.
    async fn send_through_the_stopped_pod(&self, number: usize) -> Vec<String> {
        let mut acknowledged = Vec::new();
        while !self.goes_on.load(Ordering::Relaxed) {
            let key = format!("{number} {}", acknowledged.len());
            let to = &self.busy[acknowledged.len() % self.busy.len()];
            let letter = json!({ "recipient_agent_id": to.id, "body": key, "client_message_id": key });
            while self.stopped.call(&self.sender, "mailbox_send", letter.clone()).await.status != 200 {}
            acknowledged.push(key);
        }
        acknowledged
    }

    /// Half of them write to the sleepers, half to those that the stopped pod holds; no more than fits into one page each.
    async fn send_through_the_other_pod(&self, number: usize, until: Instant) {
        let recipients = if number.is_multiple_of(2) { &self.sleepers } else { &self.busy };
        let mut pace = interval(Duration::from_millis(100));
        for to in recipients.iter().cycle() {
            pace.tick().await;
            let began = Instant::now();
            if began > until {
                return;
            }
            crate::house::send(&self.house, &self.sender, to, "meanwhile").await;
            assert!(began.elapsed() < FROZEN, "{:?}", began.elapsed());
        }
    }

    /// Stops the pod, and lets it go on and stops it again until it holds a mailbox in an open transaction.
    async fn stop_inside_a_transaction(&self) {
        let busy: Vec<&str> = self.busy.iter().map(|agent| agent.id.as_str()).collect();
        let holds_one = async || -> bool {
            sqlx::query_scalar(
                "with free as (select from mailbox where agent_id = any($1::text[]::uuid[]) for update skip locked)
                 select (select count(*) from free) < cardinality($1) and exists (
                    select from pg_stat_activity where datname = current_database()
                    and state = 'idle in transaction' and state_change < clock_timestamp() - interval '50 ms')",
            )
            .bind(&busy)
            .fetch_one(&self.house.db)
            .await
            .unwrap()
        };
        let stopping = async || {
            self.stopped.signal(Signal::SIGCONT);
            // It works again, and is on its way with others' letters when this one is answered.
            self.stopped.call(&self.sender, "who_am_i", json!({})).await;
            self.stopped.signal(Signal::SIGSTOP);
            timeout(Duration::from_millis(300), until("inside", holds_one)).await.is_ok()
        };
        until("it is stopped inside a transaction", stopping).await;
    }

    /// Ends the connection on which the stopped pod hears of mail; it cannot open another.
    async fn deafen(&self) {
        let ended: bool = sqlx::query_scalar(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and query like 'LISTEN%' order by backend_start desc limit 1",
        )
        .fetch_one(&self.house.db)
        .await
        .unwrap();
        assert!(ended);
    }

    /// Streams and held reads that are asleep on the pod that will be stopped.
    async fn held(&self) -> u64 {
        self.stopped.metric("waypost_held_reads").await
    }

    /// The seqs in a mailbox.
    async fn stored(&self, agent: &Agent) -> Vec<i64> {
        sqlx::query_scalar("select seq from inbox_entry where agent_id = $1::text::uuid order by seq")
            .bind(&agent.id)
            .fetch_all(&self.house.db)
            .await
            .unwrap()
    }

    async fn ends(&self, agents: impl IntoIterator<Item = &Agent>) -> Vec<(String, i64)> {
        join_all(
            agents
                .into_iter()
                .map(async |agent| (agent.id.clone(), *self.stored(agent).await.last().unwrap())),
        )
        .await
    }

    /// Every acknowledged letter is stored, and none twice.
    async fn has_once(&self, acknowledged: &[String]) {
        let (messages, bodies): (i64, i64) =
            sqlx::query_as("select count(*), count(distinct body) from message where body = any($1)")
                .bind(acknowledged)
                .fetch_one(&self.house.db)
                .await
                .unwrap();
        let count = acknowledged.len() as i64;
        assert_eq!((messages, bodies), (count, count));
        assert!(count >= SENDERS as i64, "{count}");
    }
}

/// Reads a stream to its goal: the seqs it told of, and the longest time between two of them behind the welcome.
async fn listen(mut stream: Listener, agent: &Agent, mut goal: Goal) -> (Vec<i64>, Duration) {
    let (mut seqs, mut last, mut longest) = (Vec::new(), Instant::now(), Duration::ZERO);
    loop {
        let is_reached = |goal: &Option<Vec<(String, i64)>>| {
            let end = goal.iter().flatten().find(|(id, _)| *id == agent.id);
            end.is_some_and(|(_, end)| seqs.last() == Some(end))
        };
        tokio::select! {
            event = stream.next() => {
                let Some(seq) = event.expect("it goes on").id else { continue };
                if seqs.len() > 1 {
                    longest = longest.max(last.elapsed());
                }
                last = Instant::now();
                seqs.push(seq);
            }
            _ = goal.wait_for(is_reached) => return (seqs, longest),
        }
    }
}
