//! Many at once: order, caps and keys hold however the calls of several pods interleave.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;
use waypost::config::{Caps, Config};

use crate::house::mail::{letter, stored, unacked};
use crate::house::{Agent, Answer, House, settings};

/// Long enough for a slow machine, short enough to tell a hang from a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_reader_sees_every_message_of_racing_senders_in_order_and_once() {
    const MESSAGES: usize = 20_000;
    const SENDERS: usize = 64;
    let house = Arc::new(House::with_pods(3, capped(0, 0)).await);
    let reader = house.register().await;
    let senders = house.register_many(SENDERS).await;
    let start = house.ok(&reader, "mailbox_check", json!({})).await["next_since"].as_i64().unwrap();

    let next = Arc::new(AtomicUsize::new(0));
    let mut sending = JoinSet::new();
    for (place, sender) in senders.into_iter().enumerate() {
        let (house, next, to) = (house.clone(), next.clone(), reader.id.clone());
        sending.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= MESSAGES {
                    return;
                }
                let message = json!({ "recipient_agent_id": to, "body": number.to_string() });
                let answer = house.call(place % 2, &sender, "mailbox_send", message).await;
                assert_eq!(answer.status, 200, "{}", answer.body);
            }
        });
    }

    // Two pods send, so that a lock within one pod is not enough; the reader is on a third.
    let reading = read_in_order(&house, 2, &reader, start, MESSAGES);
    let (bodies, ()) = tokio::join!(reading, all_succeed(sending));

    let mut numbers: Vec<usize> = bodies.iter().map(|body| body.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..MESSAGES), "every message once");
    let rest = house.call(2, &reader, "mailbox_check", json!({ "since": start + MESSAGES as i64 })).await;
    assert_eq!(rest.body["messages"], json!([]), "and nothing else");
}

/// Follows the cursor until `count` messages have come; their bodies in the order they came.
async fn read_in_order(house: &House, pod: usize, reader: &Agent, start: i64, count: usize) -> Vec<String> {
    let (mut cursor, mut bodies) = (start, Vec::with_capacity(count));
    while bodies.len() < count {
        let ask = json!({ "since": cursor, "limit": 100, "wait": 25 });
        let page = house.call(pod, reader, "mailbox_check", ask).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let messages = page.body["messages"].as_array().unwrap();
        assert!(!messages.is_empty(), "held for 25 seconds, and {} of {count} had come", bodies.len());
        for message in messages {
            let seq = message["seq"].as_i64().unwrap();
            assert!(seq > cursor, "{seq} came after {cursor}");
            cursor = seq;
            bodies.push(message["body"].as_str().unwrap().to_owned());
        }
        assert_eq!(page.body["next_since"], cursor);
    }
    bodies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cap_of_a_mailbox_is_exact_under_128_racers() {
    let house = Arc::new(House::with_pods(2, capped(50, 10)).await);
    let recipient = house.register().await;
    let senders = house.register_many(128).await;
    let calls = senders.into_iter().map(|sender| (sender, letter(&recipient, "one of many"))).collect();
    let answers = at_once(&house, "mailbox_send", calls).await;

    assert_eq!(by_outcome(&answers), BTreeMap::from([("mailbox_full".into(), 78), ("ok".into(), 50)]));
    assert_eq!(unacked(&house, &recipient).await, (50, 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cap_of_each_sender_is_exact_under_128_racers() {
    let house = Arc::new(House::with_pods(2, capped(50, 10)).await);
    let recipient = house.register().await;
    let senders = house.register_many(3).await;
    let calls =
        (0..128).map(|racer| (senders[racer % 3].clone(), letter(&recipient, "one of many"))).collect();
    let answers = at_once(&house, "mailbox_send", calls).await;

    let expected = BTreeMap::from([("mailbox_full_per_sender".into(), 98), ("ok".into(), 30)]);
    assert_eq!(by_outcome(&answers), expected);
    assert_eq!(unacked(&house, &recipient).await, (30, 30));
    let per_sender: Vec<i64> = sqlx::query_scalar(
        "select count(*) from message where recipient_agent_id = $1 and sender_agent_id is not null group by sender_agent_id",
    )
    .bind(id(&recipient))
    .fetch_all(&house.db)
    .await
    .unwrap();
    assert_eq!(per_sender, [10, 10, 10]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_that_race_with_sends_never_let_a_mailbox_over_its_cap() {
    let house = Arc::new(House::with_pods(2, capped(5, 0)).await);
    let recipient = house.register().await;
    let senders = house.register_many(16).await;
    let mut racing = JoinSet::new();
    for (place, sender) in senders.into_iter().enumerate() {
        let (house, recipient) = (house.clone(), recipient.clone());
        racing.spawn(async move {
            for _ in 0..12 {
                let sent =
                    house.call(place % 2, &sender, "mailbox_send", letter(&recipient, "one of many")).await;
                assert!(sent.status == 200 || sent.body["code"] == "mailbox_full", "{}", sent.body);
                let claimed = house.call(place % 2, &recipient, "mailbox_claim", json!({ "limit": 1 })).await;
                let Some(claimed) = claimed.body["messages"][0]["id"].as_str() else { continue };
                let acked = house
                    .call(place % 2, &recipient, "mailbox_ack", json!({ "message_ids": [claimed] }))
                    .await;
                assert_eq!(acked.status, 200, "{}", acked.body);
                let (entries, counted) = unacked(&house, &recipient).await;
                assert!(entries <= 5 && counted <= 5, "{entries} entries, {counted} counted");
            }
        });
    }
    timeout(PATIENCE, all_succeed(racing)).await.unwrap();
    let (entries, counted) = unacked(&house, &recipient).await;
    assert_eq!(entries, i64::from(counted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_message_id_raced_by_64_is_one_message_and_64_equal_answers() {
    let house = Arc::new(House::with_pods(2, settings()).await);
    let (sender, recipient) = (house.register().await, house.register().await);
    let message = json!({ "recipient_agent_id": recipient.id, "body": "once", "client_message_id": "one" });
    let calls = (0..64).map(|_| (sender.clone(), message.clone())).collect();
    let answers = at_once(&house, "mailbox_send", calls).await;

    assert_eq!(by_outcome(&answers), BTreeMap::from([("ok".into(), 64)]));
    for member in ["message_id", "seq", "created_at", "recipient_agent_id"] {
        assert!(answers.iter().all(|answer| answer.body[member] == answers[0].body[member]), "{member}");
    }
    let repeats = answers.iter().filter(|answer| answer.body["deduplicated"] == true);
    assert_eq!(repeats.count(), 63);
    assert_eq!(unacked(&house, &recipient).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_message_id_to_eight_recipients_is_one_message_to_one_of_them() {
    let house = Arc::new(House::with_pods(2, settings()).await);
    let sender = house.register().await;
    let recipients = house.register_many(8).await;
    for round in 0..5 {
        let key = format!("round {round}");
        let message =
            |to: &Agent| json!({ "recipient_agent_id": to.id, "body": "once", "client_message_id": key });
        let calls = (0..64).map(|racer| (sender.clone(), message(&recipients[racer / 2 % 8]))).collect();
        let answers = at_once(&house, "mailbox_send", calls).await;

        // Every recipient was tried eight times: one of them has it, the others' eight are conflicts each.
        let expected = BTreeMap::from([("idempotency_conflict".into(), 56), ("ok".into(), 8)]);
        assert_eq!(by_outcome(&answers), expected);
        let told: Vec<&Value> = answers
            .iter()
            .filter(|answer| answer.status == 200)
            .map(|answer| &answer.body["message_id"])
            .collect();
        assert!(told.iter().all(|id| *id == told[0]));
    }
    assert_eq!(stored(&house).await, 5, "one of each round and nothing else");
}

/// The settings of a test with these caps.
fn capped(mailbox: u32, sender: u32) -> Config {
    Config { caps: Caps { mailbox, sender }, ..settings() }
}

/// Makes all calls at the same moment, half of them on each of two pods.
async fn at_once(house: &Arc<House>, tool: &'static str, calls: Vec<(Agent, Value)>) -> Vec<Answer> {
    let gate = Arc::new(Barrier::new(calls.len()));
    let mut racing = JoinSet::new();
    for (place, (agent, arguments)) in calls.into_iter().enumerate() {
        let (house, gate) = (house.clone(), gate.clone());
        racing.spawn(async move {
            gate.wait().await;
            house.call(place % 2, &agent, tool, arguments).await
        });
    }
    timeout(PATIENCE, racing.join_all()).await.unwrap()
}

/// How many answers there are of each code; a success is `ok`.
fn by_outcome(answers: &[Answer]) -> BTreeMap<String, usize> {
    let mut outcomes = BTreeMap::new();
    for answer in answers {
        let word = match answer.status {
            200 => "ok".to_owned(),
            _ => answer.body["code"].as_str().unwrap_or("no code").to_owned(),
        };
        *outcomes.entry(word).or_default() += 1;
    }
    outcomes
}

fn id(agent: &Agent) -> Uuid {
    agent.id.parse().unwrap()
}

/// Waits for all, and fails with the first that failed.
async fn all_succeed(mut tasks: JoinSet<()>) {
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
