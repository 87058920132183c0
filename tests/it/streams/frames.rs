//! What a stream says, and when.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Listener, stage};
use crate::house::send;

#[tokio::test]
async fn a_stream_greets_at_once_and_tells_of_mail_by_envelopes_without_its_text() {
    let (house, ada, bob) = stage(1).await;
    let mut stream = Listener::open(&house, 0, &bob, "").await;
    for (name, value) in
        [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-accel-buffering", "no")]
    {
        assert_eq!(stream.answer.headers()[name], value);
    }
    assert!(!stream.answer.headers().contains_key("content-encoding"));

    let thread = "0192d3c4-5b6a-7c8d-9e0f-a1b2c3d4e5f6";
    let letter = json!({ "recipient_agent_id": bob.id, "body": "the text itself", "message_type": "offer",
        "thread_id": thread, "ack_requested": true, "ack_deadline": "2030-01-31T12:00:00Z" });
    let sent = house.ok(&ada, "mailbox_send", letter).await;
    let (seq, envelope) = stream.message().await;
    assert_eq!(seq, sent["seq"].as_i64().unwrap());
    let id = sent["message_id"].as_str().unwrap();
    let read_url = format!("{}/api/v1/mailbox/messages/{id}", house.url(0));
    let from = json!({ "type": "agent", "agent_id": ada.id, "name": ada.name });
    assert_eq!(
        envelope,
        json!({ "id": id, "from": from, "type": "offer", "thread_id": thread, "ack_requested": true,
            "deadline": "2030-01-31T12:00:00.000Z", "read_url": read_url })
    );
    let read = house.send(house.http().get(read_url), Some(&bob.key)).await;
    assert_eq!(read.body["body"], "the text itself");
}

#[tokio::test]
async fn a_notice_of_the_service_is_told_of_as_such() {
    let (house, _, _) = stage(1).await;
    let carol = house.register().await;
    let (seq, envelope) = Listener::open(&house, 0, &carol, "").await.message().await;
    assert_eq!((seq, &envelope["from"]["type"]), (1, &json!("system")), "{envelope}");
    assert_eq!(envelope["from"]["agent_id"], json!(null));
}

#[tokio::test]
async fn below_an_organization_the_address_of_a_message_is_there_too() {
    let (house, _, _) = stage(1).await;
    let chore = waypost::config::OrgChore::Create {
        slug: "acme".into(),
        registration: waypost::config::Registration::Open,
    };
    waypost::operator::run(house.options.clone(), waypost::config::Chore::Org(chore)).await.unwrap();
    let made = house.post(0, "/o/acme/api/v1/onboard", None, &json!({})).await.body;
    let key = made["api_key"].as_str().unwrap();
    let url = format!("{}/o/acme{}", house.url(0), super::STREAM);
    let mut stream = Listener::opened(house.http().get(url).bearer_auth(key)).await;
    let (_, envelope) = stream.message().await;
    let read_url = envelope["read_url"].as_str().unwrap();
    assert!(read_url.starts_with(&format!("{}/o/acme/api/v1/mailbox/messages/", house.url(0))), "{read_url}");
    assert_eq!(house.send(house.http().get(read_url), Some(key)).await.status, 200);
}

#[tokio::test]
async fn a_quiet_stream_pings_with_its_cursor_at_the_asked_pace_clamped_to_a_second() {
    let (house, ada, bob) = stage(1).await;
    let began = Instant::now();
    let mut stream = Listener::open(&house, 0, &bob, "?heartbeat_seconds=0.01").await;
    assert_eq!(stream.cursor("ping").await, 1);
    send(&house, &ada, &bob, "news").await;
    assert_eq!(stream.seqs(1).await, [2]);
    assert_eq!(stream.cursor("ping").await, 2);
    assert!(began.elapsed() >= Duration::from_millis(1_900), "{:?}", began.elapsed());
    let slow = Listener::open(&house, 0, &bob, "?heartbeat_seconds=1e9").await;
    drop(slow);
}

#[tokio::test]
async fn a_stream_ends_with_its_cursor_when_its_wait_is_over() {
    let (house, ada, bob) = stage(1).await;
    let began = Instant::now();
    let mut stream = Listener::open(&house, 0, &bob, "?wait=1&heartbeat_seconds=60").await;
    send(&house, &ada, &bob, "news").await;
    assert_eq!(stream.seqs(1).await, [2]);
    assert_eq!(stream.cursor("reconnect").await, 2);
    stream.ends().await;
    assert!(began.elapsed() >= Duration::from_secs(1));

    // Clamped, and what waits is told of first.
    let mut stream = Listener::open(&house, 0, &bob, "?wait=-3").await;
    assert_eq!(stream.seqs(1).await, [2]);
    assert_eq!(stream.cursor("reconnect").await, 2);
    stream.ends().await;
}
