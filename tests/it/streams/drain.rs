//! A pod goes away under its streams and held reads: every client goes on at another one, and misses nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::timeout;

use super::{Listener, STREAM, boundless, boundless_program};
use crate::house::{Agent, House, until};
use crate::mcp::client::{Client, Keys};
use crate::program::{self, Program};

const READERS: usize = 20;
const STREAMS: usize = 1_000;
const HELD: usize = 100;
/// What each reader is sent: while all is well, while the pod goes, and when it is gone.
const LETTERS: i64 = 60;
const PATIENCE: Duration = Duration::from_secs(120);

/// The pod that stays, the one that goes, and who reads at it.
struct Stage {
    house: House,
    /// Where the one that goes is.
    going: String,
    sender: Agent,
    readers: Vec<Agent>,
    /// How many streams and reads the going pod has.
    open: AtomicUsize,
    /// How many streams it has sent away.
    moved: AtomicUsize,
}

impl Stage {
    async fn set() -> (Stage, Program) {
        let house = House::with_pods(1, boundless()).await;
        let folder = program::folder();
        let going = boundless_program(&house, folder.path()).await;
        let sender = house.register().await;
        let readers = house.register_many(READERS).await;
        let (open, moved) = (AtomicUsize::new(0), AtomicUsize::new(0));
        (Stage { house, going: going.url.clone(), sender, readers, open, moved }, going)
    }

    /// Reads until all letters are there, at the pod that goes and then at the one that stays.
    async fn stream(&self, reader: &Agent) -> Vec<i64> {
        let (mut seqs, mut url) = (Vec::new(), format!("{}{STREAM}", self.going));
        let mut is_first = true;
        while seqs.len() < LETTERS as usize + 1 {
            let mut request = self.house.http().get(&url).bearer_auth(&reader.key);
            if let Some(last) = seqs.last() {
                request = request.header("Last-Event-ID", *last);
            }
            let Some(mut listener) = Listener::tried(request).await else { continue };
            if std::mem::take(&mut is_first) {
                self.open.fetch_add(1, Ordering::Relaxed);
            }
            while seqs.len() < LETTERS as usize + 1 {
                let event = listener.next().await.expect("a stream says when it ends");
                match event.name.as_str() {
                    "message" => seqs.push(event.id.unwrap()),
                    "reconnect" => {
                        assert_eq!(event.data["cursor"].as_i64(), seqs.last().copied(), "{event:?}");
                        assert!(event.retry.is_some_and(|retry| retry <= 2_500), "{event:?}");
                        listener.ends().await;
                        self.moved.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    _ => {}
                }
            }
            url = format!("{}{STREAM}", self.house.url(0));
        }
        seqs
    }

    /// The same with held reads.
    async fn hold(&self, reader: &Agent) -> Vec<i64> {
        let (mut seqs, mut since, mut url) = (Vec::new(), 0, self.going.clone());
        self.open.fetch_add(1, Ordering::Relaxed);
        while seqs.len() < LETTERS as usize + 1 {
            let read = format!("{url}/api/v1/mailbox/messages?wait=25&since={since}");
            let page = match self.house.http().get(read).bearer_auth(&reader.key).send().await {
                Ok(answer) => answer.json::<serde_json::Value>().await.unwrap(),
                // Between two reads the door has closed, and nobody has answered.
                Err(error) if url == self.going && (error.is_connect() || error.is_request()) => {
                    url = self.house.url(0);
                    continue;
                }
                Err(error) => panic!("{error:?}"),
            };
            // A thousand at once may have to wait for their turn for longer than a call waits.
            if page["status"] == 503 {
                continue;
            }
            let messages = page["messages"].as_array().unwrap_or_else(|| panic!("{page}"));
            seqs.extend(messages.iter().map(|message| message["seq"].as_i64().unwrap()));
            since = page["next_since"].as_i64().unwrap();
        }
        seqs
    }

    async fn send(&self, count: i64) {
        for _ in 0..count {
            join_all(self.readers.iter().map(async |reader| {
                let letter = json!({ "recipient_agent_id": reader.id, "body": "one of many" });
                self.house.ok(&self.sender, "mailbox_send", letter).await;
            }))
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_pod_sends_its_thousand_streams_to_another_one_and_nothing_is_lost_or_repeated() {
    let (stage, going) = Stage::set().await;
    let of = |number: usize| &stage.readers[number % READERS];
    let streams = join_all((0..STREAMS).map(|number| stage.stream(of(number))));
    let reads = join_all((0..HELD).map(|number| stage.hold(of(number))));
    let draining = async {
        until("all are open", async || stage.open.load(Ordering::Relaxed) == STREAMS + HELD).await;
        stage.send(20).await;
        going.signal(Signal::SIGTERM);
        let told = Instant::now();
        let ending = async { (going.ended().await, told.elapsed()) };
        let (ended, ()) = join(ending, stage.send(20)).await;
        stage.send(LETTERS - 40).await;
        ended
    };
    let all = join(join(streams, reads), draining);
    let ((streamed, held), (ended, took)) = timeout(PATIENCE, all).await.unwrap();
    for seqs in streamed.into_iter().chain(held) {
        assert_eq!(seqs, (1..=LETTERS + 1).collect::<Vec<_>>());
    }
    assert_eq!(stage.moved.load(Ordering::Relaxed), STREAMS, "each was told to go elsewhere, once");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("cutting"), "{}", ended.stderr);
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_gives_mcp_streams_their_summary_and_ends_at_once() {
    let mut house = House::with_pods(2, boundless()).await;
    let bob = house.register().await;
    let client = Client::modern(&house).with(Keys::bearer(&bob.key)).following(json!("token"));
    let held = client.call("mailbox_stream", json!({ "since": 1, "wait": 25 }));
    let pod = house.pods.remove(0);
    let draining = async {
        until("it is held", async || pod.dispatch.holds.open() == 1).await;
        let began = Instant::now();
        pod.drain().await;
        began.elapsed()
    };
    let (said, took) = join(held, draining).await;
    assert_eq!(said.structured(), json!({ "kind": "drain", "cursor": 1, "delivered": 0 }));
    assert!(took < Duration::from_secs(10), "{took:?}");
}
