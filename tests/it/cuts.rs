//! The connection between pod and database breaks at every point of a call: the call is carried out
//! whole or not at all, and the answer tells which.

pub mod cut;
pub mod proxy;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::house::{Agent, Answer, House};
use cut::{BOUND, Cut};
use proxy::{At, How};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_and_its_reply_are_stored_together_wherever_the_connection_is_cut() {
    let cut = Cut::with_pool(1).await;
    let (peer, worker) = (cut.agent().await, cut.agent().await);
    let points = cut
        .everywhere(async || {
            let message = send_directly(&cut.house, &peer, &worker).await;
            let ack = json!({ "message_ids": [message], "reply_text": "done", "ack_id": message });
            let told = cut.first_call(&worker, "mailbox_ack", ack.clone()).await;
            let stored = acked_and_replied(&cut.house, &message).await;
            assert!(stored == (true, 1) || stored == (false, 0), "{stored:?}");
            tells_the_truth(&told, stored.0);

            let again = cut.call(&worker, "mailbox_ack", ack).await;
            assert_eq!((again.status, &again.body["acked"]), (200, &json!(1)), "{}", again.body);
            assert_eq!(again.body["replayed"], stored.0);
            assert_eq!(acked_and_replied(&cut.house, &message).await, (true, 1));
            told
        })
        .await;
    assert!(points > 6 * 2 * 6, "only {points} points: six ways to break two chunks of six exchanges");
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyed_message_is_stored_once_wherever_the_connection_is_cut() {
    let cut = Cut::with_pool(1).await;
    let (sender, recipient) = (cut.agent().await, cut.agent().await);
    let points = cut
        .everywhere(async || {
            let key = Uuid::new_v4().to_string();
            let message =
                json!({ "recipient_agent_id": recipient.id, "body": key, "client_message_id": key });
            let told = cut.first_call(&sender, "mailbox_send", message.clone()).await;
            let stored = messages_with(&cut.house, &key).await;
            assert!(stored <= 1);
            tells_the_truth(&told, stored == 1);

            let again = cut.call(&sender, "mailbox_send", message).await;
            assert_eq!(
                (again.status, &again.body["deduplicated"]),
                (200, &json!(stored == 1)),
                "{}",
                again.body
            );
            if told.status == 200 {
                assert_eq!(again.body["message_id"], told.body["message_id"]);
            }
            assert_eq!(messages_with(&cut.house, &key).await, 1);
            told
        })
        .await;
    assert!(points > 6 * 2 * 4, "only {points} points: six ways to break two chunks of four exchanges");
    cut.counters_agree().await;
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_leases_all_it_serves_or_nothing_wherever_the_connection_is_cut() {
    let cut = Cut::with_pool(1).await;
    let peer = cut.agent().await;
    let points = cut
        .everywhere(async || {
            let worker = cut.agent().await;
            for _ in 0..3 {
                send_directly(&cut.house, &peer, &worker).await;
            }
            let run = json!({ "run_id": Uuid::new_v4(), "limit": 2, "lease_seconds": 600 });
            let told = cut.first_call(&worker, "mailbox_claim", run.clone()).await;
            let leased = leased(&cut.house, &worker).await;
            assert!(leased == (2, 2) || leased == (0, 0), "{leased:?}");
            tells_the_truth(&told, leased.0 == 2);

            let again = cut.call(&worker, "mailbox_claim", run).await;
            assert_eq!(
                again.body["messages"].as_array().map(Vec::len),
                Some(2),
                "{} after {}",
                again.body,
                told.body
            );
            if told.status == 200 {
                assert_eq!(again.body["messages"], told.body["messages"]);
                assert_eq!(again.body["lease_expires_at"], told.body["lease_expires_at"]);
            }
            told
        })
        .await;
    assert!(points > 6 * 2 * 5, "only {points} points: six ways to break two chunks of five exchanges");
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_half_of_an_agent_is_left_wherever_the_connection_is_cut() {
    let cut = Cut::with_pool(1).await;
    let nobody = cut.agent().await;
    let points = cut
        .everywhere(async || {
            let name = Uuid::new_v4().to_string();
            let told = cut.first_call(&nobody, "register", json!({ "agent_name": name })).await;
            let parts = parts_of_agent(&cut.house, &name).await;
            assert!(parts == (1, 1, 1, 1) || parts == (0, 0, 0, 0), "{parts:?}");
            tells_the_truth(&told, parts.0 == 1);
            if told.status == 200 {
                let key = told.body["api_key"].as_str().unwrap();
                let own = cut.house.post(1, "/api/v1/tools/who_am_i", Some(key), &json!({})).await;
                assert_eq!(own.body["agent_name"], name, "{}", own.body);
            }
            told
        })
        .await;
    assert!(points > 100, "only {points} points");
    let owners: i64 = sqlx::query_scalar(
        "select count(*) from owner o where not exists (select from agent a where a.owner_id = o.owner_id)",
    )
    .fetch_one(&cut.house.db)
    .await
    .unwrap();
    assert_eq!(owners, 0, "owners of nobody");
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_vanishes_in_a_black_hole_is_answered_truthfully_in_time() {
    let cut = Cut::open().await;
    let (sender, recipient) = (cut.agent().await, cut.agent().await);
    for how in [How::HoleBefore, How::HoleAfter] {
        let key = Uuid::new_v4().to_string();
        let message = json!({ "recipient_agent_id": recipient.id, "body": key, "client_message_id": key });
        cut.proxy.break_at(At::Saying("commit"), how);
        let began = Instant::now();
        let told = cut.call(&sender, "mailbox_send", message.clone()).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(9), "{took:?}: the database was left to notice it by itself");
        assert!(cut.proxy.heal(), "{how:?} took place");

        assert_eq!(told.status, 200, "{how:?}: {}", told.body);
        assert_eq!(messages_with(&cut.house, &key).await, 1);
        let again = cut.call(&sender, "mailbox_send", message).await;
        assert_eq!(again.body["message_id"], told.body["message_id"]);
    }
    cut.leaves_nothing_open().await;
    cut.counters_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_vanishes_in_a_black_hole_fails_in_time_and_stores_nothing() {
    let cut = Cut::open().await;
    let (caller, name) = (cut.agent().await, Uuid::new_v4().to_string());
    let registration = json!({ "agent_name": name });
    cut.proxy.break_at(At::Chunk(5), How::HoleBefore);
    let told = cut.call(&caller, "register", registration.clone()).await;
    assert!(cut.proxy.heal());

    assert_eq!((told.status, &told.body["details"]["outcome"]), (503, &Value::Null), "{}", told.body);
    cut.leaves_nothing_open().await;
    assert_eq!(parts_of_agent(&cut.house, &name).await, (0, 0, 0, 0));
    let again = cut.call(&caller, "register", registration).await;
    assert_eq!((again.status, &again.body["agent_name"]), (200, &json!(name)), "{}", again.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_statement_vanishes_in_a_black_hole_is_served_once_on_another_connection() {
    let cut = Cut::open().await;
    let peer = cut.agent().await;
    // The begin and its answer, the lock, what is free, the lease.
    for chunk in [1, 3, 5, 7] {
        let worker = cut.agent().await;
        send_directly(&cut.house, &peer, &worker).await;
        let run = json!({ "run_id": Uuid::new_v4(), "lease_seconds": 600 });
        cut.proxy.break_at(At::Chunk(chunk), How::HoleBefore);
        let told = cut.call(&worker, "mailbox_claim", run.clone()).await;
        assert!(cut.proxy.heal());

        assert_eq!(told.body["messages"].as_array().map(Vec::len), Some(2), "{}", told.body);
        assert_eq!(leased(&cut.house, &worker).await, (2, 2));
        let again = cut.call(&worker, "mailbox_claim", run).await;
        assert_eq!(again.body["messages"], told.body["messages"]);
        let other = cut.call(&worker, "mailbox_claim", json!({})).await;
        assert_eq!(other.body["messages"], json!([]), "two runs hold one message");
    }
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_finds_nothing_commits_nothing() {
    let cut = Cut::open().await;
    let worker = cut.agent().await;
    let claimed = cut.call(&worker, "mailbox_claim", json!({})).await;
    let held = json!({ "run_id": claimed.body["run_id"] });
    cut.proxy.break_at(At::Saying("commit"), How::CutBefore);
    for (claim, served) in [(json!({}), 0), (held, 1)] {
        let told = cut.call(&worker, "mailbox_claim", claim).await;
        assert_eq!(told.body["messages"].as_array().map(Vec::len), Some(served), "{}", told.body);
    }
    let ack = json!({ "message_ids": [claimed.body["messages"][0]["id"]] });
    assert_eq!(cut.house.call(1, &worker, "mailbox_ack", ack).await.status, 200);
    assert_eq!(cut.call(&worker, "mailbox_claim", json!({})).await.body["remaining"], 0);
    assert!(!cut.proxy.heal(), "nothing was committed");
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_statement_vanishes_in_a_black_hole_is_stored_once_on_another_connection() {
    let cut = Cut::open().await;
    let (sender, recipient) = (cut.agent().await, cut.agent().await);
    for chunk in [1, 3, 5] {
        let key = Uuid::new_v4().to_string();
        let message = json!({ "recipient_agent_id": recipient.id, "body": key, "client_message_id": key });
        cut.proxy.break_at(At::Chunk(chunk), How::HoleBefore);
        let told = cut.call(&sender, "mailbox_send", message.clone()).await;
        assert!(cut.proxy.heal());

        assert_eq!((told.status, &told.body["deduplicated"]), (200, &json!(false)), "{}", told.body);
        assert_eq!(messages_with(&cut.house, &key).await, 1);
        let again = cut.call(&sender, "mailbox_send", message).await;
        assert_eq!(again.body["message_id"], told.body["message_id"]);
    }
    cut.leaves_nothing_open().await;
    cut.counters_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_vanishes_on_its_way_back_to_the_pool_is_not_missed_for_long() {
    let cut = Cut::with_pool(1).await;
    let caller = cut.agent().await;
    cut.proxy.break_at(At::AfterAnswerTo("commit"), How::HoleBefore);
    assert_eq!(cut.call(&caller, "register", json!({})).await.status, 200);

    // It was the only one: until it is given up, calls are told to come again.
    let served = async { while cut.call(&caller, "register", json!({})).await.status != 200 {} };
    timeout(BOUND, served).await.expect("the pool must make another");
    assert!(cut.proxy.heal());
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_unknown_outcome_is_told_as_such_and_settled_by_its_run() {
    let cut = Cut::open().await;
    for how in [How::CutAfter, How::CutBefore] {
        let worker = cut.agent().await;
        let run = json!({ "run_id": Uuid::new_v4(), "lease_seconds": 600 });
        cut.proxy.break_for_long(At::Saying("commit"), how);
        let told = cut.call(&worker, "mailbox_claim", run.clone()).await;
        assert!(cut.proxy.heal());

        assert_eq!(
            (told.status, &told.body["details"]["outcome"]),
            (503, &json!("unknown")),
            "{}",
            told.body
        );
        let again = cut.call(&worker, "mailbox_claim", run).await;
        assert_eq!(again.body["messages"].as_array().map(Vec::len), Some(1), "{}", again.body);
        assert_eq!(leased(&cut.house, &worker).await, (1, 1));
    }
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_nobody_can_look_up_is_told_as_unknown_and_settled_by_a_retry() {
    let cut = Cut::open().await;
    let (sender, recipient) = (cut.agent().await, cut.agent().await);
    for (how, is_stored) in [(How::CutAfter, true), (How::CutBefore, false)] {
        let key = Uuid::new_v4().to_string();
        let message = json!({ "recipient_agent_id": recipient.id, "body": key, "client_message_id": key });
        cut.proxy.break_for_long(At::Saying("commit"), how);
        let told = cut.call(&sender, "mailbox_send", message.clone()).await;
        assert!(cut.proxy.heal());

        assert_eq!(
            (told.status, &told.body["details"]["outcome"]),
            (503, &json!("unknown")),
            "{}",
            told.body
        );
        assert!(told.headers.contains_key("retry-after"));
        assert_eq!(messages_with(&cut.house, &key).await, i64::from(is_stored));
        let again = cut.call(&sender, "mailbox_send", message).await;
        assert_eq!((again.status, &again.body["deduplicated"]), (200, &json!(is_stored)), "{}", again.body);
        assert_eq!(messages_with(&cut.house, &key).await, 1);
    }
    cut.leaves_nothing_open().await;
}

/// 200 says stored; an error says not stored, unless it says that it does not know, which no single
/// cut is an excuse for.
fn tells_the_truth(told: &Answer, is_stored: bool) {
    assert_eq!(told.body["details"]["outcome"], Value::Null, "{}", told.body);
    assert_eq!(told.status == 200, is_stored, "{} {}", told.status, told.body);
}

async fn send_directly(house: &House, from: &Agent, to: &Agent) -> String {
    let message = json!({ "recipient_agent_id": to.id, "body": "work" });
    let sent = house.call(1, from, "mailbox_send", message).await;
    assert_eq!(sent.status, 200, "{}", sent.body);
    sent.body["message_id"].as_str().unwrap().to_owned()
}

/// Whether a message is acked, and how many answers to it there are.
async fn acked_and_replied(house: &House, message: &str) -> (bool, i64) {
    sqlx::query_as(
        "select acked_at is not null, (select count(*) from message r where r.in_reply_to = e.message_id)
         from inbox_entry e where message_id = $1::text::uuid",
    )
    .bind(message)
    .fetch_one(&house.db)
    .await
    .unwrap()
}

async fn messages_with(house: &House, body: &str) -> i64 {
    let count = sqlx::query_scalar(
        "select count(*) from message join inbox_entry using (org_id, message_id) where body = $1",
    );
    count.bind(body).fetch_one(&house.db).await.unwrap()
}

/// Entries under a lease, and entries that the runs count.
async fn leased(house: &House, worker: &Agent) -> (i64, i64) {
    sqlx::query_as(
        "select (select count(*) from inbox_entry where agent_id = $1::text::uuid and lease_until > clock_timestamp()),
            (select coalesce(sum(held), 0) from claim_run where agent_id = $1::text::uuid)",
    )
    .bind(&worker.id)
    .fetch_one(&house.db)
    .await
    .unwrap()
}

/// Agents of a name, and their mailboxes, keys and notices.
async fn parts_of_agent(house: &House, name: &str) -> (i64, i64, i64, i64) {
    sqlx::query_as(
        "select count(*), (select count(*) from mailbox m join agent a using (agent_id) where a.name = $1),
            (select count(*) from credential c join agent a using (agent_id) where a.name = $1),
            (select count(*) from inbox_entry e join agent a using (agent_id) where a.name = $1)
         from agent where name = $1",
    )
    .bind(name)
    .fetch_one(&house.db)
    .await
    .unwrap()
}
