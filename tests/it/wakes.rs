//! Held reads wake although what carries the news breaks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;
use waypost::config::Config;
use waypost::pod::Pod;

use crate::house::outage::{End, two_pods_on_their_own_server};
use crate::house::{Agent, House, settings, until};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_read_wakes_in_time_though_listener_and_ring_were_killed() {
    let house = House::with_pods(2, settings()).await;
    let (sender, reader) = (house.register().await, house.register().await);
    // The ring has a connection from its first news on.
    crate::house::send(&house, &sender, &reader, "first").await;
    for kills in ["LISTEN%", "%wakes.ring%"] {
        let cursor = house.ok(&reader, "mailbox_check", json!({})).await["next_since"].clone();
        let held = house.call(1, &reader, "mailbox_check", json!({ "since": cursor, "wait": 25 }));
        let sending = async {
            read_is_held(&house.pods[1]).await;
            assert!(terminate(&house, kills).await > 0, "{kills}");
            crate::house::send(&house, &sender, &reader, "news").await;
            Instant::now()
        };
        let (held, sent) = timeout(PATIENCE, async { tokio::join!(held, sending) }).await.unwrap();
        let took = sent.elapsed();
        assert_eq!(held.body["messages"][0]["body"], "news", "{}", held.body);
        assert!(took < Duration::from_millis(1_500), "{kills}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_outlive_a_restart_and_crashes_of_postgres_and_no_acknowledged_message_is_lost() {
    let config = Config { caps: waypost::config::Caps { mailbox: 0, sender: 0 }, ..settings() };
    let (mut server, house) = two_pods_on_their_own_server(config).await;
    let (sender, reader) = (house.register().await, house.register().await);
    let cursor = house.ok(&reader, "mailbox_check", json!({})).await["next_since"].clone();

    for end in [End::Stop, End::KillAll, End::KillOne] {
        // Sixteen send all the time, before, while and after Postgres is away.
        let is_back = AtomicBool::new(false);
        let sending =
            join_all((0..16).map(|place| send_until_back(&house, place % 2, &sender, &reader, &is_back)));
        let restarting = async {
            wait_for_more_messages(&house, 200).await;
            server.bring_down(&house, end).await;
            is_back.store(true, Ordering::Relaxed);
        };
        let (acknowledged, ()) =
            timeout(PATIENCE, async { tokio::join!(sending, restarting) }).await.unwrap();
        let stored = read_all(&house, &reader, &cursor).await;
        let is_stored = |id| stored.contains(id);
        assert!(acknowledged.iter().flatten().all(is_stored), "every acknowledged message is stored");
    }

    // Both wake each other's readers again.
    let end =
        house.ok(&reader, "mailbox_check", json!({ "since": i64::MAX >> 11 })).await["next_since"].clone();
    let held = house.call(1, &reader, "mailbox_check", json!({ "since": end, "wait": 25 }));
    let sending = async {
        read_is_held(&house.pods[1]).await;
        crate::house::send(&house, &sender, &reader, "after").await;
        Instant::now()
    };
    let (held, sent) = timeout(PATIENCE, async { tokio::join!(held, sending) }).await.unwrap();
    assert_eq!(held.body["messages"][0]["body"], "after", "{}", held.body);
    assert!(sent.elapsed() < Duration::from_millis(1_500));
    drop(house);
    server.stop().await;
}

/// Sends one message after the other until Postgres is back and ten more are stored; the ids of
/// those that were acknowledged. Any other answer is an honest "not now".
async fn send_until_back(
    house: &House,
    pod: usize,
    sender: &Agent,
    reader: &Agent,
    is_back: &AtomicBool,
) -> Vec<Value> {
    let (mut acknowledged, mut more) = (Vec::new(), 10);
    while more > 0 {
        let message = json!({ "recipient_agent_id": reader.id, "body": "kept" });
        let answer = house.call(pod, sender, "mailbox_send", message).await;
        match answer.status {
            200 => acknowledged.push(answer.body["message_id"].clone()),
            503 => {}
            other => panic!("{other}: {}", answer.body),
        }
        more -= usize::from(is_back.load(Ordering::Relaxed) && answer.status == 200);
    }
    acknowledged
}

/// Ends the sessions of this database whose last statement is like that; tells how many.
async fn terminate(house: &House, statement: &str) -> i64 {
    sqlx::query_scalar(
        "select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and query like $1",
    )
    .bind(statement)
    .fetch_one(&house.db)
    .await
    .unwrap()
}

/// Waits until a read sleeps on this pod.
async fn read_is_held(pod: &Pod) {
    until("a read is held", async || pod.dispatch.holds.open() > 0).await;
}

async fn wait_for_more_messages(house: &House, more: i64) {
    let count = async || -> i64 {
        sqlx::query_scalar("select count(*) from message").fetch_one(&house.db).await.unwrap()
    };
    let enough = count().await + more;
    until("more are stored", async || count().await >= enough).await;
}

/// The ids of all messages behind a cursor.
async fn read_all(house: &House, reader: &Agent, cursor: &Value) -> Vec<Value> {
    let (mut cursor, mut ids) = (cursor.clone(), Vec::new());
    loop {
        let page =
            house.call(1, reader, "mailbox_check", json!({ "since": cursor, "limit": 100 })).await.body;
        let messages = page["messages"].as_array().unwrap();
        if messages.is_empty() {
            return ids;
        }
        ids.extend(messages.iter().map(|message| message["id"].clone()));
        cursor = page["next_since"].clone();
    }
}
