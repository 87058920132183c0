//! Sending again: the same key stores one message, however often and wherever it is sent.

use futures::future::join_all;
use serde_json::{Value, json};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_retries_on_two_pods_store_one_message() {
    let house = with_caps(2, 0, 0).await;
    let (ada, bob, carol) = (house.register().await, settled(&house).await, settled(&house).await);
    for round in 0..8 {
        let arguments = with(to(&bob), json!({ "client_message_id": format!("k{round}") }));
        let racers = (0..8).map(|racer| house.call(racer % 2, &ada, "mailbox_send", arguments.clone()));
        // The same key to another mailbox takes no lock that the others wait for.
        let rival = with(to(&carol), json!({ "client_message_id": format!("k{round}") }));
        let (answers, rival) = tokio::join!(join_all(racers), house.call(1, &ada, "mailbox_send", rival));
        let stored: Vec<&Value> =
            answers.iter().map(|answer| &answer.body).filter(|body| body["code"].is_null()).collect();
        let new = stored.iter().filter(|body| body["deduplicated"] == false).count();
        assert!(stored.iter().all(|body| body["message_id"] == stored[0]["message_id"]));
        match rival.status {
            200 => assert!(stored.is_empty(), "both were stored"),
            _ => assert_eq!((rival.status, stored.len(), new), (409, 8, 1), "{}", rival.body),
        }
    }
    let all = mail(&house, &bob).await.len() + mail(&house, &carol).await.len();
    assert_eq!(all, 8);
}
