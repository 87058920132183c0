//! How much peer mail may wait: told with a hint, and not counting what is no peer mail. Races: `races.rs`.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ids, owned, send_to as to, settle, settled, summary, tamper, with_caps};
use crate::house::{House, send};

#[tokio::test]
async fn a_senders_share_is_its_own_and_an_ack_makes_room_but_no_lease() {
    let house = with_caps(1, 50, 2).await;
    let (bob, ada, carol) = (settled(&house).await, house.register().await, house.register().await);
    for _ in 0..2 {
        house.ok(&ada, "mailbox_send", to(&bob)).await;
    }
    let refused = house.refused(&ada, "mailbox_send", to(&bob), "mailbox_full_per_sender").await;
    assert_eq!(refused["status"], 409);
    house.ok(&carol, "mailbox_send", to(&bob)).await;
    let claimed = house.ok(&bob, "mailbox_claim", json!({ "limit": 1 })).await;
    house.refused(&ada, "mailbox_send", to(&bob), "mailbox_full_per_sender").await;
    house.ok(&bob, "mailbox_ack", json!({ "message_ids": ids(&claimed["messages"]) })).await;
    house.ok(&ada, "mailbox_send", to(&bob)).await;
    house.refused(&ada, "mailbox_send", to(&bob), "mailbox_full_per_sender").await;
}

#[tokio::test]
async fn a_full_mailbox_tells_whether_its_agent_reads() {
    let house = with_caps(1, 1, 0).await;
    let (ada, bob) = (house.register().await, house.register().await);
    send(&house, &ada, &bob, "fills it").await;
    let refusal = async || house.call(0, &ada, "mailbox_send", to(&bob)).await;
    let never = refusal().await;
    assert_eq!((&never.body["hint"], never.status), (&json!("recipient_never_polled"), 409));
    let details = json!({ "recipient_monitored": false, "last_polled_at": null, "retry_after": 60 });
    assert_eq!(never.body["details"], details);
    assert_eq!(
        (&never.body["retryable"], &never.headers["retry-after"]),
        (&json!(true), &"60".parse().unwrap())
    );

    house.ok(&bob, "mailbox_check", json!({})).await;
    assert_eq!(refusal().await.body["hint"], "recipient_last_polled_0m_ago");
    let shift = "update poll set last_polled_at = clock_timestamp() - interval '95 minutes 20 seconds' where agent_id = $1";
    tamper(&house, &bob, shift).await;
    let stale = refusal().await.body;
    assert_eq!(stale["hint"], "recipient_last_polled_95m_ago");
    assert!(stale["details"]["last_polled_at"].is_string(), "{stale}");

    // Polled in three distinct hours of the last 24.
    let three = "update poll set hours = b'100100000000000000000001' where agent_id = $1";
    tamper(&house, &bob, three).await;
    let monitored = refusal().await.body;
    assert_eq!(
        (monitored.get("hint"), &monitored["details"]["recipient_monitored"]),
        (Some(&Value::Null), &json!(true))
    );
    // Two hours later the oldest of the three is no longer of the last 24.
    tamper(&house, &bob, "update poll set polled_hour = polled_hour - 2 where agent_id = $1").await;
    assert_eq!(refusal().await.body["details"]["recipient_monitored"], false);
}

#[tokio::test]
async fn a_failed_look_at_the_recipient_is_told_from_a_dead_mailbox() {
    let house = with_caps(1, 1, 0).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    send(&house, &ada, &bob, "fills it").await;
    sqlx::query("alter table poll rename to poll_out_of_reach").execute(&house.db).await.unwrap();
    let refused = house.refused(&ada, "mailbox_send", to(&bob), "mailbox_full").await;
    assert_eq!(refused["hint"], "recipient_liveness_unknown");
    sqlx::query("alter table poll_out_of_reach rename to poll").execute(&house.db).await.unwrap();
    assert_eq!(summary(&house, &bob).await["pending"], 1, "what was refused left nothing behind");
}

#[tokio::test]
async fn notices_and_ack_replies_neither_count_nor_are_kept_out() {
    let house = with_caps(1, 2, 2).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    // Ada's box: full of Bob's mail, and its welcome and a probe do not count.
    owned(&house, 0, &ada.owner_key, Method::POST, &format!("/agents/{}/probe", ada.id), json!({})).await;
    for _ in 0..2 {
        send(&house, &bob, &ada, "mail").await;
        send(&house, &ada, &bob, "question").await;
    }
    house.refused(&bob, "mailbox_send", to(&ada), "mailbox_full").await;
    let claimed = house.ok(&bob, "mailbox_claim", json!({})).await;
    let acked = json!({ "message_ids": ids(&claimed["messages"]), "reply_text": "answer" });
    assert!(house.ok(&bob, "mailbox_ack", acked).await["reply"].is_object());
    // The reply is there beside the full mail, and does not count once the mail is acked.
    let mail = super::mail(&house, &ada).await;
    assert_eq!(mail.last().unwrap()["message_type"], "agent_reply");
    let peer: Vec<&str> = mail[..2].iter().map(|message| message["id"].as_str().unwrap()).collect();
    house.ok(&ada, "mailbox_ack", json!({ "message_ids": peer })).await;
    for _ in 0..2 {
        send(&house, &bob, &ada, "mail").await;
    }
    house.refused(&bob, "mailbox_send", to(&ada), "mailbox_full").await;
}

#[tokio::test]
async fn a_retry_of_what_was_stored_is_answered_though_the_mailbox_is_full() {
    let house = with_caps(1, 1, 1).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let mut arguments = to(&bob);
    arguments["client_message_id"] = json!("k");
    let first = house.ok(&ada, "mailbox_send", arguments.clone()).await;
    house.refused(&ada, "mailbox_send", to(&bob), "mailbox_full").await;
    let again = house.ok(&ada, "mailbox_send", arguments).await;
    assert_eq!((&again["message_id"], &again["deduplicated"]), (&first["message_id"], &json!(true)));
}

#[tokio::test]
async fn zero_is_no_cap() {
    let house: House = with_caps(1, 0, 0).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    for _ in 0..60 {
        send(&house, &ada, &bob, "mail").await;
    }
    settle(&house, &bob).await;
    assert_eq!(summary(&house, &bob).await["acked_total"], 61);
}
