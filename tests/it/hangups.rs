//! Clients that hang up in the middle of a call take nothing with them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uuid::Uuid;
use waypost::config::{Caps, Config};

use crate::house::{Agent, House, settings};

const HANG_UPS: usize = 2_000;
/// So many of them come when everybody else is done.
const LAST: usize = 400;
/// Connections of those that hang up, open at once.
const AT_ONCE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_clients_that_hang_up_harm_no_message_and_nobody_else() {
    let config = Config { caps: Caps { mailbox: 0, sender: 0 }, ..settings() };
    let house = Arc::new(House::with_pods(2, config).await);
    let recipient = house.register().await;
    let (mut rude, mut innocent) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        rude.push(house.register().await);
    }
    for _ in 0..16 {
        innocent.push(house.register().await);
    }

    let is_over = Arc::new(AtomicBool::new(false));
    let mut sending = JoinSet::new();
    for (place, sender) in innocent.into_iter().enumerate() {
        sending.spawn(send_until(house.clone(), place % 2, sender, recipient.clone(), is_over.clone()));
    }
    let storm = hang_up_many(&house, &rude, &recipient, HANG_UPS - LAST);
    timeout(PATIENCE, storm).await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let acknowledged: Vec<Uuid> =
        timeout(PATIENCE, sending.join_all()).await.unwrap().into_iter().flatten().collect();
    assert!(acknowledged.len() >= 16, "the innocent were served: {}", acknowledged.len());

    // With nobody behind them who would use, and so mend, what they leave.
    timeout(PATIENCE, hang_up_many(&house, &rude, &recipient, LAST)).await.unwrap();
    // What the rude began is carried out to its end, though nobody hears the answer.
    for pod in &house.pods {
        pod.dispatch.turns.tasks.close();
        timeout(PATIENCE, pod.dispatch.turns.tasks.wait()).await.unwrap();
    }
    let stored: i64 = sqlx::query_scalar("select count(*) from inbox_entry where message_id = any($1)")
        .bind(&acknowledged)
        .fetch_one(&house.db)
        .await
        .unwrap();
    assert_eq!(stored as usize, acknowledged.len(), "every acknowledged message is stored");
    assert_eq!(sessions_in_transactions(&house).await, 0);
    assert_eq!(mailboxes_that_disagree(&house).await, 0);
}

/// Sends one message after the other and is always answered well; the messages' ids.
async fn send_until(
    house: Arc<House>,
    pod: usize,
    sender: Agent,
    recipient: Agent,
    is_over: Arc<AtomicBool>,
) -> Vec<Uuid> {
    let mut acknowledged = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let message = json!({ "recipient_agent_id": recipient.id, "body": "innocent" });
        let answer = house.call(pod, &sender, "mailbox_send", message).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        acknowledged.push(answer.body["message_id"].as_str().unwrap().parse().unwrap());
    }
    acknowledged
}

/// Each begins a call, on one pod or the other, and is gone 0 to 5 milliseconds later.
async fn hang_up_many(house: &House, rude: &[Agent], recipient: &Agent, count: usize) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut gone = JoinSet::new();
    for number in 0..count {
        let caller = &rude[number % rude.len()];
        let call = match number % 4 {
            0 => (
                "mailbox_send",
                json!({ "recipient_agent_id": recipient.id, "body": "rude", "ack_requested": true }),
            ),
            1 => ("mailbox_send", json!({ "recipient_agent_id": caller.id, "body": "rude" })),
            2 => ("mailbox_check", json!({ "wait": number % 8 / 4 * 20 })),
            _ => ("mailbox_claim", json!({ "limit": 3 })),
        };
        let request = request(caller, call.0, &call.1.to_string());
        let address = house.pods[number / 2 % 2].address;
        let permit = room.clone().acquire_owned().await.unwrap();
        gone.spawn(async move {
            hang_up(address, &request, number).await;
            drop(permit);
        });
    }
    gone.join_all().await;
}

fn request(caller: &Agent, tool: &str, body: &str) -> String {
    format!(
        "POST /api/v1/tools/{tool} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        caller.key,
        body.len(),
    )
}

async fn hang_up(address: SocketAddr, request: &str, number: usize) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    if number.is_multiple_of(3) {
        // Closed with a reset instead of an end.
        socket.set_zero_linger().unwrap();
    }
    socket.write_all(request.as_bytes()).await.unwrap();
    // Not a wait for something: the moment at which this client is gone.
    sleep(Duration::from_micros((number as u64 * 37) % 5_000)).await;
}

async fn sessions_in_transactions(house: &House) -> i64 {
    sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'",
    )
    .fetch_one(&house.db)
    .await
    .unwrap()
}

/// Mailboxes whose row says something else than their entries do.
async fn mailboxes_that_disagree(house: &House) -> i64 {
    sqlx::query_scalar(
        "select count(*) from mailbox m left join lateral (
            select max(seq) as last_seq, count(*) filter (where acked_at is null) as open,
                count(*) filter (where acked_at is null and counted) as counted,
                count(*) filter (where acked_at is null and ack_requested) as ack_wanted,
                count(acked_at) as acked_total
            from inbox_entry e where e.agent_id = m.agent_id) e on true
         where (m.last_seq, m.open, m.counted, m.ack_wanted, m.acked_total)
            is distinct from (e.last_seq, e.open, e.counted, e.ack_wanted, e.acked_total)",
    )
    .fetch_one(&house.db)
    .await
    .unwrap()
}
