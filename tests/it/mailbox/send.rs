//! `mailbox_send`: judged, stored once, in order; what the sender may not see does not exist.

use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;
use waypost::config::Registration;

use super::{
    ids, mail, members, nobody, number, organization, register_at, send_to as to, settled, with, with_caps,
};
use crate::house::{Agent, House, send};

#[tokio::test]
async fn a_message_arrives_with_all_that_was_sent() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let thread = nobody();
    let arguments = json!({
        "recipient_agent_id": bob.id, "body": "Zoë 🤖", "message_type": "offer", "thread_id": thread,
        "parts": [{ "text": "more" }, { "data": { "n": 1 }, "metadata": {} }],
        "ack_requested": true, "ack_deadline": "2030-01-02T05:04:05+02:00",
    });
    let answer = house.post(0, "/api/v1/mailbox/messages", Some(&ada.key), &arguments).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let sent = answer.body;
    assert_eq!(members(&sent).join(" "), "created_at deduplicated message_id recipient_agent_id seq");
    let [message] = mail(&house, &bob).await.try_into().unwrap();
    let fields = "ack_deadline ack_requested acked_at body created_at id in_reply_to lease_expires_at message_type parts room_id sender_agent_id sender_name sender_type seq state thread_id";
    assert_eq!(members(&message).join(" "), fields);
    for (field, value) in [
        ("id", sent["message_id"].clone()),
        ("seq", sent["seq"].clone()),
        ("created_at", sent["created_at"].clone()),
        ("sender_type", json!("agent")),
        ("sender_agent_id", json!(ada.id)),
        ("sender_name", json!(ada.name)),
        ("message_type", json!("offer")),
        ("body", json!("Zoë 🤖")),
        ("parts", arguments["parts"].clone()),
        ("thread_id", json!(thread)),
        ("ack_requested", json!(true)),
        ("ack_deadline", json!("2030-01-02T03:04:05.000Z")),
        ("state", json!("pending")),
        ("in_reply_to", Value::Null),
        ("room_id", Value::Null),
        ("lease_expires_at", Value::Null),
        ("acked_at", Value::Null),
    ] {
        assert_eq!(message[field], value, "{field}");
    }
    let path = format!("/api/v1/mailbox/messages/{}", message["id"].as_str().unwrap());
    assert_eq!(house.get(0, &path, Some(&bob.key)).await.body, message);
    assert_eq!(house.get(0, &path, Some(&ada.key)).await.status, 404, "it is not in the sender's box");
}

#[tokio::test]
async fn exactly_one_field_names_the_recipient() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, house.register().await);
    let both = with(to(&bob), json!({ "recipient_agent_name": bob.name }));
    for arguments in [json!({ "body": "hi" }), both, json!({ "body": "hi", "recipient_agent_id": "" })] {
        let refused = house.refused(&ada, "mailbox_send", arguments, "validation_error").await;
        assert_eq!(
            (&refused["status"], &refused["details"]["field"]),
            (&json!(422), &json!("recipient_agent_id"))
        );
    }
    let unknown = house
        .refused(&ada, "mailbox_send", json!({ "to_agent": bob.id, "body": "hi" }), "unknown_field")
        .await;
    assert_eq!(unknown["suggestion"], "recipient_agent_id");
}

#[tokio::test]
async fn an_agent_may_write_to_itself() {
    let house = House::open().await;
    let ada = settled(&house).await;
    let id = send(&house, &ada, &ada, "note").await;
    let asked = with(to(&ada), json!({ "in_reply_to": id }));
    house.ok(&ada, "mailbox_send", asked).await;
    assert_eq!(mail(&house, &ada).await.len(), 2);
}

#[tokio::test]
async fn bodies_count_scalar_values_and_parts_count_bytes() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, house.register().await);
    for (more, refusal) in [
        (json!({ "body": "𝒳".repeat(8000) }), None),
        (json!({ "body": "\u{1}".repeat(8000) }), None),
        (json!({ "body": "x".repeat(8001) }), Some((400, "message_too_large"))),
        (json!({ "body": "" }), Some((422, "validation_error"))),
        (json!({ "parts": [{ "text": "x".repeat(17_000) }] }), Some((400, "parts_too_large"))),
        (json!({ "parts": [{}] }), Some((422, "validation_error"))),
        (json!({ "parts": [1] }), Some((422, "validation_error"))),
        (json!({ "message_type": "system" }), Some((422, "validation_error"))),
        (json!({ "ack_deadline": "2030-01-02T03:04:05" }), Some((422, "validation_error"))),
        (json!({ "ack_deadline": "9999-12-31T23:59:59-23:59" }), Some((422, "validation_error"))),
        (json!({ "ack_deadline": "0000-01-01T00:00:00+23:59" }), Some((422, "validation_error"))),
        (json!({ "thread_id": "" }), Some((422, "validation_error"))),
        (json!({ "in_reply_to": "x" }), Some((422, "validation_error"))),
        (json!({ "client_message_id": " " }), Some((422, "validation_error"))),
        (json!({ "client_message_id": "" }), Some((422, "validation_error"))),
        (json!({ "client_message_id": "k".repeat(65) }), Some((422, "validation_error"))),
        (json!({ "client_message_id": "é".repeat(64), "parts": null, "thread_id": null }), None),
    ] {
        let answer = house.call(0, &ada, "mailbox_send", with(to(&bob), more)).await;
        let code = answer.body["code"].as_str();
        assert_eq!(code.map(|code| (answer.status, code)), refusal, "{}", answer.body);
    }
}

#[tokio::test]
async fn agents_reach_only_their_own_organization() {
    let house = House::open().await;
    organization(&house, "acme", Registration::Open).await;
    let ada = house.register().await;
    let foreign = Agent::of(&register_at(&house, "acme", json!({ "agent_name": "Far" })).await.body);
    let unknown = json!({ "recipient_agent_id": nobody(), "body": "hi" });
    let expected = house.refused(&ada, "mailbox_send", unknown, "not_found").await;
    assert_eq!(house.refused(&ada, "mailbox_send", to(&foreign), "not_found").await, expected);
    let by_name = json!({ "recipient_agent_name": "Far", "body": "hi" });
    assert_eq!(house.refused(&ada, "mailbox_send", by_name, "not_found").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_by_cursor_sees_every_message_of_racing_senders_once_and_in_order() {
    let house = with_caps(2, 0, 0).await;
    let bob = settled(&house).await;
    let senders = house.register_many(4).await;
    let sending = join_all(senders.iter().enumerate().map(async |(place, sender)| {
        for round in 0..15 {
            let answer = house.call(place % 2, sender, "mailbox_send", to(&bob)).await;
            assert_eq!(answer.status, 200, "{round} {}", answer.body);
        }
    }));
    let reading = async {
        let (mut since, mut seen) = (json!(1), Vec::<Uuid>::new());
        while seen.len() < 60 {
            let page =
                house.ok(&bob, "mailbox_check", json!({ "since": since, "wait": 10, "limit": 7 })).await;
            assert!(page["next_since"].as_i64() > since.as_i64(), "{} of 60, then nothing", seen.len());
            seen.extend(ids(&page["messages"]).iter().map(|id| id.parse::<Uuid>().unwrap()));
            since = page["next_since"].clone();
        }
        seen
    };
    let (_, mut seen) = tokio::join!(sending, reading);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 60);
}

#[tokio::test]
async fn parts_are_kept_as_written_however_long_the_database_would_write_them() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let parts = json!([{ "data": vec![1e308; 2_000] }]);
    house.ok(&ada, "mailbox_send", with(to(&bob), json!({ "parts": parts }))).await;
    let stored = number(
        &house,
        &bob,
        "select max(length(parts::text))::bigint from message where recipient_agent_id = $1",
    )
    .await;
    assert!(stored <= 16 * 1024, "{stored}");
    assert_eq!(mail(&house, &bob).await[0]["parts"], parts);
}
