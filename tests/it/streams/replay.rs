//! What a stream begins with: what nobody acked, or everything after a cursor; then what comes.

use futures::future::join_all;
use serde_json::json;
use sqlx::PgConnection;

use super::{Listener, ack, stage};
use crate::house::{House, last_poll, send};

#[tokio::test]
async fn a_first_connect_replays_what_nobody_acked_however_often_it_was_delivered() {
    let (house, ada, bob) = stage(1).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(json!(send(&house, &ada, &bob, &number.to_string()).await));
    }
    ack(&house, &bob, &[ids[1].clone(), ids[4].clone()]).await;
    // Delivered by a check, a claim and a stream: neither is an ack.
    house.ok(&bob, "mailbox_claim", json!({ "limit": 2 })).await;
    for _ in 0..2 {
        let mut stream = Listener::open(&house, 0, &bob, "?wait=0").await;
        assert_eq!(stream.seqs(3).await, [2, 4, 5]);
        // The end of what was acked is behind it, too.
        assert_eq!(stream.cursor("reconnect").await, 6);
    }
}

#[tokio::test]
async fn a_resume_is_exact_whoever_acked_what_and_the_header_wins() {
    let (house, ada, bob) = stage(1).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(json!(send(&house, &ada, &bob, &number.to_string()).await));
    }
    ack(&house, &bob, &ids).await;
    let mut stream = Listener::open(&house, 0, &bob, "?wait=0&since=3").await;
    assert_eq!(stream.seqs(3).await, [4, 5, 6]);
    let url = format!("{}{}?since=0&wait=0", house.url(0), super::STREAM);
    let request = house.http().get(url).bearer_auth(&bob.key).header("Last-Event-ID", "5");
    let mut stream = Listener::opened(request).await;
    assert_eq!(stream.seqs(1).await, [6]);
    assert_eq!(stream.cursor("reconnect").await, 6);
}

#[tokio::test]
async fn what_comes_while_the_backlog_is_read_comes_behind_it_once_also_when_it_is_acked_meanwhile() {
    let (house, ada, bob) = stage(1).await;
    // More than all buffers on the way take: the stream is still in its backlog when the client has read one event.
    fill(&house, &bob.id, 30_000).await;
    let mut stream = Listener::open(&house, 0, &bob, "").await;
    let first = stream.seqs(1).await;
    let late = send(&house, &ada, &bob, "late").await;
    ack(&house, &bob, &[json!(late)]).await;
    send(&house, &ada, &bob, "late, and not acked").await;
    let seqs = [first, stream.seqs(30_001).await].concat();
    assert!(seqs.into_iter().eq(2..=30_003));
    send(&house, &ada, &bob, "live").await;
    assert_eq!(stream.seqs(1).await, [30_004]);
}

#[tokio::test]
async fn who_is_ahead_of_the_mailbox_is_told_at_once_where_it_stands_and_goes_on_there() {
    let (house, ada, bob) = stage(1).await;
    let mut stream = Listener::open(&house, 0, &bob, "?since=99").await;
    assert_eq!(stream.cursor("ping").await, 1);
    send(&house, &ada, &bob, "news").await;
    assert_eq!(stream.seqs(1).await, [2]);
    let followed = house.ok(&bob, "mailbox_stream", json!({ "since": 99, "wait": 25 })).await;
    assert_eq!(followed, json!({ "kind": "timeout", "cursor": 2, "delivered": 0 }));
}

#[tokio::test]
async fn a_stream_is_one_poll_however_long_it_is_read() {
    let (house, ada, bob) = stage(1).await;
    let before = last_poll(&house, &bob).await;
    let mut stream = Listener::open(&house, 0, &bob, "?heartbeat_seconds=1").await;
    let stamped = last_poll(&house, &bob).await;
    assert!(stamped > before);
    for _ in 0..3 {
        send(&house, &ada, &bob, "news").await;
        stream.message().await;
    }
    stream.cursor("ping").await;
    assert_eq!(last_poll(&house, &bob).await, stamped);
    // And it counts: an agent that only streams is here to stay.
    let carol = house.register().await;
    assert_eq!(last_poll(&house, &carol).await, None);
    Listener::open(&house, 0, &carol, "?wait=0").await;
    assert!(last_poll(&house, &carol).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_senders_on_two_pods_reach_every_stream_once_and_in_order() {
    let (house, ada, bob) = stage(2).await;
    let mut streams = Vec::new();
    for pod in [0, 1, 0, 1] {
        streams.push(Listener::open(&house, pod, &bob, "").await);
    }
    let sending = join_all((0..8).map(async |sender| {
        for _ in 0..20 {
            let letter = json!({ "recipient_agent_id": bob.id, "body": "one of many" });
            assert_eq!(house.call(sender % 2, &ada, "mailbox_send", letter).await.status, 200);
        }
    }));
    let reading = join_all(streams.iter_mut().map(|stream| stream.seqs(160)));
    let (_, heard) = tokio::join!(sending, reading);
    for seqs in heard {
        assert_eq!(seqs, (2..=161).collect::<Vec<i64>>());
    }
}

/// Puts messages into a mailbox as if they had been posted.
pub async fn fill(house: &House, agent_id: &str, count: i64) {
    fill_by(&mut house.db.acquire().await.unwrap(), agent_id, count).await;
}

/// The same on a session of the test's.
pub async fn fill_by(db: &mut PgConnection, agent_id: &str, count: i64) {
    let fill = "with box as (
            update mailbox set last_seq = last_seq + $2, open = open + $2::int where agent_id = $1::text::uuid
            returning org_id, agent_id, last_seq - $2 as base
        ), letters as (
            select box.*, n, gen_random_uuid() as message_id from box, generate_series(1, $2) n
        ), stored as (
            insert into message (org_id, message_id, sender_name, recipient_agent_id, message_type, body, created_at)
            select org_id, message_id, 'someone', agent_id, 'direct', 'text', now() from letters
        )
        insert into inbox_entry (org_id, agent_id, seq, message_id, counted, ack_requested)
        select org_id, agent_id, base + n, message_id, false, false from letters";
    sqlx::query(fill).bind(agent_id).bind(count).execute(db).await.unwrap();
}
