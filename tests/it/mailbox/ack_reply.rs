//! The reply that rides on an ack: to the one peer, on the right thread, or not at all and said why.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ids, mail, nobody, owned, settled};
use crate::house::{Agent, House, send};

async fn send_on(house: &House, from: &Agent, to: &Agent, thread: Option<&str>) -> String {
    let arguments = json!({ "recipient_agent_id": to.id, "body": "mail", "thread_id": thread });
    house.ok(from, "mailbox_send", arguments).await["message_id"].as_str().unwrap().to_owned()
}

async fn ack_with_reply(house: &House, agent: &Agent, ids: &[&String]) -> Value {
    house.ok(agent, "mailbox_ack", json!({ "message_ids": ids, "reply_text": "answer" })).await
}

/// The newest message of an agent, which is a reply.
async fn newest(house: &House, agent: &Agent) -> Value {
    let reply = mail(house, agent).await.pop().unwrap();
    assert_eq!((&reply["message_type"], &reply["body"]), (&json!("agent_reply"), &json!("answer")));
    reply
}

#[tokio::test]
async fn a_reply_hangs_on_the_shared_thread_else_the_oldests_thread_else_the_oldest() {
    let house = House::open().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    let (one, two) = (nobody(), nobody());
    for (threads, expected) in [
        ([Some(&one), Some(&one)], Some(&one)),
        ([Some(&one), Some(&two)], Some(&one)),
        ([Some(&two), None], Some(&two)),
        ([None, Some(&two)], None),
        ([None, None], None),
    ] {
        let oldest = send_on(&house, &ada, &bob, threads[0].map(String::as_str)).await;
        let newer = send_on(&house, &ada, &bob, threads[1].map(String::as_str)).await;
        // The order of the ids does not matter: the oldest is the oldest.
        let acked = ack_with_reply(&house, &bob, &[&newer, &oldest]).await;
        let reply = newest(&house, &ada).await;
        assert_eq!(acked["reply"], json!({ "message_id": reply["id"], "recipient_agent_id": ada.id }));
        assert_eq!(reply["thread_id"], *expected.unwrap_or(&oldest), "{threads:?}");
        assert_eq!((&reply["in_reply_to"], &reply["sender_agent_id"]), (&json!(oldest), &json!(bob.id)));
        assert_eq!((&reply["ack_requested"], &reply["state"]), (&json!(false), &json!("pending")));
    }
}

#[tokio::test]
async fn several_senders_get_no_reply_and_the_ack_counts() {
    let house = House::open().await;
    let (ada, bob, carol) = (settled(&house).await, settled(&house).await, settled(&house).await);
    let (first, second) = (send(&house, &ada, &bob, "a").await, send(&house, &carol, &bob, "c").await);
    let acked = ack_with_reply(&house, &bob, &[&first, &second]).await;
    assert_eq!(
        (&acked["acked"], &acked["reply"], &acked["reply_skipped"]),
        (&json!(2), &Value::Null, &json!("several_senders"))
    );
    assert!(mail(&house, &ada).await.is_empty() && mail(&house, &carol).await.is_empty());
}

#[tokio::test]
async fn notices_take_no_reply_and_do_not_keep_a_peer_from_its_own() {
    let house = House::open().await;
    let (ada, bob, carol) = (settled(&house).await, house.register().await, house.register().await);
    let welcome = |checked: Value| ids(&checked["messages"]).remove(0);
    let notice = welcome(house.ok(&bob, "mailbox_check", json!({})).await);
    let acked = ack_with_reply(&house, &bob, &[&notice]).await;
    assert_eq!(
        (&acked["acked"], &acked["reply"], &acked["reply_skipped"]),
        (&json!(1), &Value::Null, &json!("system_notices"))
    );

    let notice = welcome(house.ok(&carol, "mailbox_check", json!({})).await);
    let id = send(&house, &ada, &carol, "mail").await;
    let acked = ack_with_reply(&house, &carol, &[&notice, &id]).await;
    assert_eq!((&acked["acked"], acked.get("reply_skipped")), (&json!(2), None));
    let reply = newest(&house, &ada).await;
    assert_eq!(
        (&reply["in_reply_to"], &reply["thread_id"]),
        (&json!(id), &json!(id)),
        "the oldest of the peer's"
    );
}

#[tokio::test]
async fn what_was_acked_before_is_not_replied_to_again() {
    let house = House::open().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    let (first, second) = (send(&house, &ada, &bob, "1").await, send(&house, &ada, &bob, "2").await);
    ack_with_reply(&house, &bob, &[&first]).await;
    let again = ack_with_reply(&house, &bob, &[&first]).await;
    assert_eq!(
        (&again["acked"], &again["already_acked"], &again["reply"]),
        (&json!(0), &json!(1), &Value::Null)
    );
    assert_eq!(again["reply_skipped"], "already_acked");
    assert_eq!(mail(&house, &ada).await.len(), 1);
    // With something new beside it the reply answers what this ack settled.
    let both = ack_with_reply(&house, &bob, &[&first, &second]).await;
    assert_eq!((&both["acked"], &both["already_acked"]), (&json!(1), &json!(1)));
    assert_eq!(newest(&house, &ada).await["in_reply_to"], json!(second));
}

#[tokio::test]
async fn a_sender_that_takes_no_mail_gets_no_reply_and_the_ack_counts() {
    let house = House::open().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    let id = send(&house, &ada, &bob, "mail").await;
    let path = format!("/agents/{}/blocks/{}", ada.id, bob.id);
    assert_eq!(owned(&house, 0, &ada.owner_key, Method::PUT, &path, json!({})).await.status, 200);
    let acked = ack_with_reply(&house, &bob, &[&id]).await;
    assert_eq!(
        (&acked["acked"], &acked["reply"], &acked["reply_skipped"]),
        (&json!(1), &Value::Null, &json!("sender_refuses_mail"))
    );
    assert!(mail(&house, &ada).await.is_empty());
}

#[tokio::test]
async fn an_agent_may_answer_itself() {
    let house = House::open().await;
    let ada = settled(&house).await;
    let id = send(&house, &ada, &ada, "note").await;
    assert_eq!(ack_with_reply(&house, &ada, &[&id]).await["reply"]["recipient_agent_id"], ada.id);
    assert_eq!(newest(&house, &ada).await["in_reply_to"], json!(id));
}
