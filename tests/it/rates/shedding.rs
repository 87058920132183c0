//! A pod with more calls than it can work on turns the next ones away at once.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use waypost::call::credential::{Kind, Secret};
use waypost::call::turns::MOST_WAITING;
use waypost::config::Config;

use super::header;
use crate::house::{House, last_poll, polled_since, settings, until};

/// Takes both turns of the pod and fills its queue, until it is told to go.
async fn overload(house: &House, go: &CancellationToken) -> JoinSet<()> {
    let turns = &house.pods[0].dispatch.turns;
    let mut crowd = JoinSet::new();
    for _ in 0..2 + MOST_WAITING {
        let (turns, go) = (turns.clone(), go.clone());
        crowd.spawn(async move {
            turns.take_again(async move { go.cancelled().await }).await.unwrap();
        });
    }
    until("the queue is full", async || turns.waiting() == MOST_WAITING).await;
    crowd
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_pod_answers_503_at_once() {
    let house = House::with_pods(1, Config { pool: 2, rate_limit: 5, ..settings() }).await;
    let agent = house.register().await;
    house.ok(&agent, "who_am_i", json!({})).await;
    let go = CancellationToken::new();
    let crowd = overload(&house, &go).await;
    let ask = house.call(0, &agent, "who_am_i", json!({}));
    // Whoever waited would wait for five seconds.
    let refused = timeout(Duration::from_secs(2), ask).await.expect("it waits");
    assert_eq!((refused.status, header(&refused, "retry-after")), (503, "1"));
    assert_eq!(refused.body["code"], "temporarily_unavailable");
    assert_eq!(refused.body["details"], json!({ "retry_after": 1 }));
    assert_eq!(house.get(0, "/livez", None).await.status, 200);
    // That a key cannot be looked up is held against nobody: after ten of them guesses would be refused.
    for _ in 0..20 {
        let unknown = Secret::mint(Kind::Agent);
        assert_eq!(house.get(0, "/api/v1/whoami", Some(unknown.expose())).await.status, 503);
    }
    go.cancel();
    crowd.join_all().await;
    house.ok(&agent, "who_am_i", json!({})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_reads_take_no_turn_asleep_and_are_answered_however_many_wait() {
    let house = House::with_pods(1, Config { pool: 2, ..settings() }).await;
    let agent = house.register().await;
    let cursor = house.ok(&agent, "mailbox_check", json!({})).await["next_since"].clone();
    let before = last_poll(&house, &agent).await;
    let held = house.call(0, &agent, "mailbox_check", json!({ "since": cursor, "wait": 1 }));
    let turns = &house.pods[0].dispatch.turns;
    let meanwhile = async {
        polled_since(&house, &agent, before).await;
        let go = CancellationToken::new();
        let crowd = overload(&house, &go).await;
        until("it joins the queue", async || turns.waiting() > MOST_WAITING).await;
        go.cancel();
        crowd.join_all().await;
    };
    let (held, ()) = tokio::join!(held, meanwhile);
    assert_eq!((held.status, &held.body["messages"]), (200, &json!([])), "{}", held.body);
}
