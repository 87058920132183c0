//! What an endpoint is told, when, and what becomes of one that does not listen.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::receiver::{Manners, Notice, Receiver};
use super::{active, due, set, shown, system_notices, told, with_endpoint};
use crate::house::{Agent, House, send, until};

#[tokio::test]
async fn a_notice_says_who_wrote_and_where_to_read_and_never_what() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    let sent = Instant::now();
    let id = send(&house, &peer, &agent, "the launch code").await;
    until("told", async || receiver.notices("/a").len() == 2).await;
    let notice = receiver.notices("/a").remove(1);
    assert!(notice.at - sent < Duration::from_secs(1), "late by {:?}", notice.at - sent);
    let read_url = format!("{}/api/v1/mailbox/messages/{id}", house.url(0));
    let envelope = json!({
        "id": id, "from": { "type": "agent", "agent_id": peer.id, "name": peer.name }, "type": "direct",
        "thread_id": null, "ack_requested": false, "deadline": null, "read_url": read_url,
    });
    let told =
        json!({ "type": "mail", "agent_id": agent.id, "pending": 2, "cursor": 2, "envelopes": [envelope] });
    assert_eq!(notice.json(), told);
    assert!(!notice.body.contains("launch"));
    assert_eq!(notice.header("content-type"), "application/json");
    is_signed(&notice, "hunter2");
}

/// Both signatures, made again from what a receiver has.
fn is_signed(notice: &Notice, secret: &str) {
    use ring::{digest, hmac};
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let key = hex(digest::digest(&digest::SHA256, secret.as_bytes()).as_ref());
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let ours = format!("{}.{}", notice.header("x-a2a-timestamp"), notice.body);
    assert_eq!(notice.header("x-a2a-signature"), hex(hmac::sign(&key, ours.as_bytes()).as_ref()));
    let (id, at) = (notice.header("webhook-id"), notice.header("webhook-timestamp"));
    let standard = hmac::sign(&key, format!("{id}.{at}.{}", notice.body).as_bytes());
    assert_eq!(notice.header("webhook-signature"), format!("v1,{}", STANDARD.encode(standard)));
}

#[tokio::test]
async fn what_came_while_an_endpoint_was_down_is_one_notice_and_a_try_at_the_same_has_the_same_id() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    receiver.behave("/a", Manners::Status(500));
    let first = send(&house, &peer, &agent, "0").await;
    until("failing", async || shown(&house, &agent).await["state"] == "failing").await;
    let waits = due(&house, &agent).await.unwrap();
    for number in 1..6 {
        send(&house, &peer, &agent, &number.to_string()).await;
    }
    assert_eq!(due(&house, &agent).await.unwrap(), waits, "mail does not hurry a retry");
    assert_eq!(receiver.notices("/a").len(), 2);
    hurry(&house, &agent).await;
    until("a second try", async || receiver.notices("/a").len() == 3).await;
    until("failed", async || failures(&house, &agent).await == 2).await;
    hurry(&house, &agent).await;
    until("a third try", async || receiver.notices("/a").len() == 4).await;
    until("failed", async || failures(&house, &agent).await == 3).await;
    receiver.behave("/a", Manners::Fine);
    hurry(&house, &agent).await;
    until("active", async || shown(&house, &agent).await["state"] == "active").await;
    let notices = receiver.notices("/a");
    let ids: Vec<&str> = notices.iter().map(|notice| notice.header("webhook-id")).collect();
    assert_eq!((ids[2], ids[3]), (ids[3], ids[4]), "the same mail, the same id");
    assert_ne!(ids[1], ids[2], "more mail, another id");
    let last = notices.last().unwrap();
    assert_eq!((&last.json()["pending"], &last.json()["cursor"]), (&json!(7), &json!(7)));
    assert_eq!((last.ids().len(), &last.ids()[0]), (6, &first));
}

#[tokio::test]
async fn a_notice_holds_twenty_envelopes_at_most_and_counts_the_rest() {
    let house = House::with_pods(
        1,
        waypost::config::Config {
            caps: waypost::config::Caps { mailbox: 0, sender: 0 },
            ..super::believing()
        },
    )
    .await;
    let receiver = Receiver::open().await;
    let (agent, peer) = (house.register().await, house.register().await);
    for number in 0..30 {
        send(&house, &peer, &agent, &number.to_string()).await;
    }
    active(&house, &agent, &receiver.url("/a")).await;
    until("told", async || !receiver.notices("/a").is_empty()).await;
    let notice = receiver.notices("/a").remove(0);
    assert_eq!((&notice.json()["pending"], &notice.json()["cursor"]), (&json!(31), &json!(31)));
    assert_eq!(notice.ids().len(), 20);
}

#[tokio::test]
async fn an_endpoint_that_says_gone_or_fails_for_five_days_is_disabled_and_its_agent_told_once() {
    let (house, receiver) = with_endpoint().await;
    for (path, manners) in [("/gone", Manners::Status(410)), ("/down", Manners::Status(503))] {
        let (agent, peer) = (told(&house, &receiver, path).await, house.register().await);
        receiver.behave(path, manners);
        send(&house, &peer, &agent, "hello").await;
        if manners == Manners::Status(503) {
            until("failing", async || shown(&house, &agent).await["state"] == "failing").await;
            set(&house, &agent, "failing_since = now() - interval '4 days 23 hours', due_at = now()").await;
            until("failed again", async || failures(&house, &agent).await == 2).await;
            set(&house, &agent, "failing_since = now() - interval '5 days 1 second', due_at = now()").await;
        }
        until("disabled", async || shown(&house, &agent).await["state"] == "disabled").await;
        let told = system_notices(&house, &agent).await;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[1].contains("webhook was disabled") && told[1].contains("webhook_verify"),
            "{}",
            told[1]
        );
        let heard = receiver.notices(path).len();
        send(&house, &peer, &agent, "more").await;
        assert!(due(&house, &agent).await.is_none(), "nothing makes a disabled one due");
        // It comes back when it is asked to, and is told of all it missed.
        receiver.behave(path, Manners::Fine);
        assert_eq!(house.ok(&agent, "webhook_verify", json!({})).await["state"], "active");
        until("told", async || receiver.notices(path).len() == heard + 1).await;
        let notice = receiver.notices(path).pop().unwrap();
        assert_eq!(notice.ids().len(), 3, "{}", notice.body);
    }
}

#[tokio::test]
async fn a_slow_endpoint_delays_no_other_one_of_another_host() {
    let (house, slow) = with_endpoint().await;
    let quick = Receiver::open().await;
    let peer = house.register().await;
    let mut slow_ones = Vec::new();
    for number in 0..12 {
        let path = format!("/{number}");
        slow_ones.push(told(&house, &slow, &path).await);
        slow.behave(&path, Manners::Hangs);
    }
    let agent = told(&house, &quick, "/a").await;
    for other in &slow_ones {
        send(&house, &peer, other, "hello").await;
    }
    until("all slow ones are called", async || slow_ones.len() == hanging(&slow, 12)).await;
    for number in 2..5 {
        let sent = Instant::now();
        send(&house, &peer, &agent, "hello").await;
        until("told", async || quick.notices("/a").len() == number).await;
        assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
    }
}

fn hanging(receiver: &Receiver, count: usize) -> usize {
    (0..count).filter(|number| receiver.notices(&format!("/{number}")).len() == 2).count()
}

#[tokio::test]
async fn notices_of_an_agent_come_in_order_and_one_after_the_other() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    receiver.behave("/a", Manners::Slow(20));
    let mut ids = Vec::new();
    for number in 0..9 {
        ids.push(send(&house, &peer, &agent, &number.to_string()).await);
    }
    let told_of = || receiver.notices("/a").iter().skip(1).flat_map(Notice::ids).collect::<Vec<_>>();
    until("told of all", async || told_of().len() >= ids.len()).await;
    assert_eq!(told_of(), ids, "each once, since nothing failed, and in order");
    let cursors: Vec<i64> =
        receiver.notices("/a").iter().map(|notice| notice.json()["cursor"].as_i64().unwrap()).collect();
    assert!(cursors.is_sorted_by(|one, next| one < next), "{cursors:?}");
}

#[tokio::test]
async fn what_was_acked_before_its_notice_left_is_not_told_of() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    receiver.behave("/a", Manners::Status(500));
    let id = send(&house, &peer, &agent, "hello").await;
    until("failing", async || shown(&house, &agent).await["state"] == "failing").await;
    house.ok(&agent, "mailbox_ack", json!({ "message_ids": [id] })).await;
    receiver.behave("/a", Manners::Fine);
    hurry(&house, &agent).await;
    until("active", async || shown(&house, &agent).await["state"] == "active").await;
    assert_eq!(receiver.notices("/a").len(), 2);
}

/// Lets the next try come now.
pub async fn hurry(house: &House, agent: &Agent) {
    set(house, agent, "due_at = now()").await;
}

pub async fn failures(house: &House, agent: &Agent) -> i32 {
    let row: Value = sqlx::query_scalar("select to_jsonb(w) from webhook w where agent_id = $1::text::uuid")
        .bind(&agent.id)
        .fetch_one(&house.db)
        .await
        .unwrap();
    row["failures"].as_i64().unwrap() as i32
}
