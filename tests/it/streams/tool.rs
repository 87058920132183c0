//! `mailbox_stream`: over MCP with progress and without, and by name over REST.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Listener, stage};
use crate::house::{Agent, House, last_poll, polled_since, send, until};
use crate::mcp::client::{Client, Keys, Said};

fn client(house: &House, agent: &Agent) -> Client {
    Client::modern(house).with(Keys::bearer(&agent.key))
}

/// The notes of a stream as (progress, message), and the summary.
fn read(said: &Said) -> (Vec<(f64, Value)>, Value) {
    assert_eq!(said.headers["content-type"], "text/event-stream", "{}", said.text);
    let events = said.text.split_terminator("\n\n");
    let mut messages: Vec<Value> =
        events.map(|event| serde_json::from_str(event.split_once("data: ").unwrap().1).unwrap()).collect();
    let summary = messages.pop().unwrap()["result"]["structuredContent"].clone();
    let note = |note: &Value| {
        let text = note["params"]["message"].as_str().unwrap();
        (note["params"]["progress"].as_f64().unwrap(), serde_json::from_str(text).unwrap())
    };
    (messages.iter().map(note).collect(), summary)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_mcp_mail_comes_as_progress_that_strictly_increases_and_ends_with_a_summary() {
    let (house, ada, bob) = stage(1).await;
    let id = send(&house, &ada, &bob, "waits").await;
    for client in [client(&house, &bob), Client::legacy(&house).with(Keys::bearer(&bob.key))] {
        let before = last_poll(&house, &bob).await;
        let newest = house.get(0, "/api/v1/mailbox/summary", Some(&bob.key)).await.body["last_seq"].clone();
        let newest = newest.as_i64().unwrap();
        let following = client.following(json!("a token"));
        let held = following.call("mailbox_stream", json!({ "wait": 3, "since": 1, "heartbeat_seconds": 1 }));
        let sending = async {
            polled_since(&house, &bob, before).await;
            send(&house, &ada, &bob, "live").await;
        };
        let (said, ()) = tokio::join!(held, sending);
        let (notes, summary) = read(&said);
        assert!(notes.windows(2).all(|pair| pair[0].0 < pair[1].0), "{notes:?}");
        let (pings, mail): (Vec<_>, Vec<_>) = notes.iter().partition(|(_, note)| note["type"] == "ping");
        let seqs: Vec<f64> = mail.iter().map(|(progress, _)| *progress).collect();
        assert_eq!(seqs, (2..=newest + 1).map(|seq| seq as f64).collect::<Vec<_>>());
        assert_eq!(mail[0].1["id"], id.as_str());
        assert_eq!(mail[0].1.as_object().unwrap().len(), 7);
        assert!((1..=3).contains(&pings.len()), "{notes:?}");
        for (progress, ping) in pings {
            assert_eq!(progress.floor(), ping["cursor"].as_f64().unwrap());
        }
        assert_eq!(summary, json!({ "kind": "timeout", "cursor": newest + 1, "delivered": newest }));
    }
}

#[tokio::test]
async fn a_call_that_ends_at_once_has_told_of_all_that_waits() {
    let (house, ada, bob) = stage(1).await;
    for number in 0..9 {
        send(&house, &ada, &bob, &number.to_string()).await;
    }
    let said = client(&house, &bob).following(json!(1)).call("mailbox_stream", json!({ "wait": 0 })).await;
    let (notes, summary) = read(&said);
    assert!(notes.iter().map(|(progress, _)| *progress).eq((2..=10).map(f64::from)), "{notes:?}");
    assert_eq!(summary, json!({ "kind": "timeout", "cursor": 10, "delivered": 9 }));
}

#[tokio::test]
async fn a_host_that_shows_no_progress_gets_the_summary_at_once() {
    let (house, ada, bob) = stage(1).await;
    send(&house, &ada, &bob, "waits").await;
    let began = Instant::now();
    let before = last_poll(&house, &bob).await;
    for (arguments, cursor) in [(json!({}), 0), (json!({ "since": 7, "wait": 25 }), 7)] {
        let summary = client(&house, &bob).call("mailbox_stream", arguments).await.structured();
        assert_eq!(summary, json!({ "kind": "no_progress_token", "cursor": cursor, "delivered": 0 }));
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(last_poll(&house, &bob).await > before);
}

#[tokio::test]
async fn by_name_it_holds_and_answers_with_its_summary() {
    let (house, ada, bob) = stage(1).await;
    send(&house, &ada, &bob, "waits").await;
    let began = Instant::now();
    let summary = house.ok(&bob, "mailbox_stream", json!({ "wait": 1 })).await;
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(summary, json!({ "kind": "timeout", "cursor": 2, "delivered": 1 }));
    let at_once = house.ok(&bob, "mailbox_stream", json!({ "wait": -1, "since": 2 })).await;
    assert_eq!(at_once, json!({ "kind": "timeout", "cursor": 2, "delivered": 0 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_the_call_with_its_kind() {
    let (house, _, bob) = stage(2).await;
    let before = last_poll(&house, &bob).await;
    let following = client(&house, &bob).following(json!(1));
    let held = following.call("mailbox_stream", json!({ "heartbeat_seconds": 1 }));
    let revoking = async {
        polled_since(&house, &bob, before).await;
        let renew = json!({ "owner_key": bob.owner_key, "agent_id": bob.id });
        assert_eq!(house.post(1, "/api/v1/tools/renew_agent_key", None, &renew).await.status, 200);
        Instant::now()
    };
    let (said, revoked) = tokio::join!(held, revoking);
    assert!(revoked.elapsed() < Duration::from_secs(2), "{:?}", revoked.elapsed());
    let kind =
        if said.headers["content-type"] == "application/json" { said.structured() } else { read(&said).1 };
    assert_eq!(kind, json!({ "kind": "revoked", "cursor": 1, "delivered": 0 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_ends_its_stream() {
    let (house, _, bob) = stage(1).await;
    let holds = &house.pods[0].dispatch.holds;
    let stream = Listener::open(&house, 0, &bob, "").await;
    let following = client(&house, &bob).following(json!(1));
    let held = tokio::time::timeout(
        Duration::from_millis(500),
        following.call("mailbox_stream", json!({ "wait": 25, "heartbeat_seconds": 60 })),
    );
    assert!(held.await.is_err(), "it was held");
    until("the call has ended", async || holds.open() == 1).await;
    drop(stream);
    until("the stream has ended", async || holds.open() == 0).await;
}
