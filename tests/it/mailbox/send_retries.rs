//! Sending again: the same key stores one message, however often it is sent. Races: `races.rs`.

use serde_json::json;

use super::{mail, send_to as to, settle, settled, with, with_caps};
use crate::house::{House, send};

#[tokio::test]
async fn a_retry_answers_the_original_and_other_content_is_refused() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let arguments = with(to(&bob), json!({ "client_message_id": "k", "ack_requested": false }));
    let first = house.post(0, "/api/v1/mailbox/messages", Some(&ada.key), &arguments).await;
    let again = house.post(0, "/api/v1/mailbox/messages", Some(&ada.key), &arguments).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(again.body, with(first.body, json!({ "deduplicated": true })));
    // A default written out is the same content.
    let spelt = with(to(&bob), json!({ "client_message_id": "k", "message_type": "direct", "parts": null }));
    assert_eq!(house.ok(&ada, "mailbox_send", spelt).await, again.body);
    let other = with(arguments.clone(), json!({ "body": "bye" }));
    assert_eq!(house.refused(&ada, "mailbox_send", other, "idempotency_conflict").await["status"], 409);
    // A key is its sender's: another's is another key.
    let carol = house.register().await;
    assert_eq!(house.ok(&carol, "mailbox_send", arguments).await["deduplicated"], false);
    assert_eq!(mail(&house, &bob).await.len(), 2);
}

#[tokio::test]
async fn a_failed_call_leaves_its_key_unused() {
    let house = with_caps(1, 1, 1).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    send(&house, &ada, &bob, "fills the box").await;
    let arguments = with(to(&bob), json!({ "client_message_id": "k" }));
    house.refused(&ada, "mailbox_send", arguments.clone(), "mailbox_full").await;
    settle(&house, &bob).await;
    let other = with(arguments, json!({ "body": "other content" }));
    assert_eq!(house.ok(&ada, "mailbox_send", other).await["deduplicated"], false);
}
