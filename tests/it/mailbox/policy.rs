//! Whose mail an agent takes: open, known or none, and single senders kept out.

use reqwest::Method;
use serde_json::{Value, json};

use super::{members, nobody, owned, settled};
use crate::house::{Agent, Answer, House, send};

async fn set(house: &House, agent: &Agent, inbound: &str) -> Answer {
    let path = format!("/agents/{}/inbound", agent.id);
    owned(house, 0, &agent.owner_key, Method::PUT, &path, json!({ "inbound": inbound })).await
}

async fn block(house: &House, method: Method, agent: &Agent, sender_id: &str) -> Answer {
    let path = format!("/agents/{}/blocks/{sender_id}", agent.id);
    let body = if method == Method::PUT { json!({}) } else { Value::Null };
    owned(house, 0, &agent.owner_key, method, &path, body).await
}

async fn reaches(house: &House, from: &Agent, to: &Agent) -> bool {
    let arguments = json!({ "recipient_agent_id": to.id, "body": "hi" });
    let answer = house.call(0, from, "mailbox_send", arguments).await;
    assert!(
        answer.status == 200 || (answer.status, &answer.body["code"]) == (403, &json!("forbidden")),
        "{}",
        answer.body
    );
    answer.status == 200
}

#[tokio::test]
async fn known_senders_are_those_it_wrote_to_and_its_owners_agents() {
    let house = House::open().await;
    let (bob, ada, carol) = (settled(&house).await, settled(&house).await, house.register().await);
    let sibling = house.register_with(json!({ "owner_key": bob.owner_key })).await;
    let question = send(&house, &carol, &bob, "before the policy").await;
    let answer = set(&house, &bob, "known").await;
    assert_eq!((answer.status, &answer.body["inbound"]), (200, &json!("known")));
    assert!(
        !reaches(&house, &ada, &bob).await && !reaches(&house, &carol, &bob).await,
        "having written is not enough"
    );
    assert!(reaches(&house, &sibling, &bob).await && reaches(&house, &bob, &bob).await);
    send(&house, &bob, &ada, "hello").await;
    assert!(reaches(&house, &ada, &bob).await);
    // A reply is mail too: it makes its recipient known.
    house.ok(&bob, "mailbox_ack", json!({ "message_ids": [question], "reply_text": "yes" })).await;
    assert!(reaches(&house, &carol, &bob).await);
}

#[tokio::test]
async fn none_takes_nobodys_mail_and_open_everybodys() {
    let house = House::open().await;
    let (bob, ada) = (settled(&house).await, house.register().await);
    send(&house, &bob, &ada, "known by now").await;
    set(&house, &bob, "none").await;
    assert!(!reaches(&house, &ada, &bob).await);
    let by_name = json!({ "recipient_agent_name": bob.name, "body": "hi" });
    house.refused(&ada, "mailbox_send", by_name, "forbidden").await;
    // Notices of the service itself still arrive.
    let probe = format!("/agents/{}/probe", bob.id);
    assert_eq!(owned(&house, 0, &bob.owner_key, Method::POST, &probe, json!({})).await.status, 201);
    set(&house, &bob, "open").await;
    assert!(reaches(&house, &ada, &bob).await);
}

#[tokio::test]
async fn a_blocked_sender_is_kept_out_whatever_the_policy_until_it_is_let_in() {
    let house = House::open().await;
    let (bob, ada, carol) = (settled(&house).await, house.register().await, house.register().await);
    send(&house, &bob, &ada, "known by now").await;
    for policy in ["open", "known"] {
        set(&house, &bob, policy).await;
        for _ in 0..2 {
            let blocked = block(&house, Method::PUT, &bob, &ada.id).await;
            let expected = json!({ "agent_id": bob.id, "sender_agent_id": ada.id, "blocked": true });
            assert_eq!((blocked.status, blocked.body), (200, expected));
        }
        assert!(!reaches(&house, &ada, &bob).await, "{policy}");
        let shown = owned(
            &house,
            0,
            &bob.owner_key,
            Method::GET,
            &format!("/agents/{}/inbound", bob.id),
            Value::Null,
        )
        .await;
        assert_eq!(shown.body, json!({ "agent_id": bob.id, "inbound": policy, "blocked": [ada.id] }));
        for _ in 0..2 {
            assert_eq!(block(&house, Method::DELETE, &bob, &ada.id).await.body["blocked"], false);
        }
        assert!(reaches(&house, &ada, &bob).await, "{policy}");
    }
    set(&house, &bob, "open").await;
    assert!(reaches(&house, &carol, &bob).await, "only the blocked one was kept out");
    assert!(reaches(&house, &bob, &ada).await, "a block is one way");
}

#[tokio::test]
async fn a_retry_of_what_was_stored_is_answered_though_its_sender_is_blocked_now() {
    let house = House::open().await;
    let (bob, ada) = (settled(&house).await, house.register().await);
    let arguments = json!({ "recipient_agent_name": bob.name, "body": "hi", "client_message_id": "k" });
    let first = house.ok(&ada, "mailbox_send", arguments.clone()).await;
    block(&house, Method::PUT, &bob, &ada.id).await;
    let again = house.ok(&ada, "mailbox_send", arguments.clone()).await;
    assert_eq!((&again["message_id"], &again["deduplicated"]), (&first["message_id"], &json!(true)));
    let other = json!({ "recipient_agent_name": bob.name, "body": "other", "client_message_id": "k" });
    house.refused(&ada, "mailbox_send", other, "idempotency_conflict").await;
    let new = json!({ "recipient_agent_name": bob.name, "body": "hi", "client_message_id": "k2" });
    house.refused(&ada, "mailbox_send", new, "forbidden").await;
    block(&house, Method::DELETE, &bob, &ada.id).await;
    // The name has come to mean two.
    house.register_with(json!({ "agent_name": bob.name })).await;
    assert_eq!(house.ok(&ada, "mailbox_send", arguments).await["deduplicated"], true);
}

#[tokio::test]
async fn only_its_owner_decides_for_an_agent() {
    let house = House::open().await;
    let (bob, stranger) = (house.register().await, house.register().await);
    let as_stranger = Agent { owner_key: stranger.owner_key.clone(), ..bob.clone() };
    assert_eq!(set(&house, &as_stranger, "none").await.status, 403);
    assert_eq!(block(&house, Method::PUT, &as_stranger, &stranger.id).await.status, 403);
    assert_eq!(block(&house, Method::DELETE, &as_stranger, &stranger.id).await.status, 403);
    assert_eq!(block(&house, Method::PUT, &bob, &nobody()).await.status, 404);
    let unknown = Agent { id: nobody(), ..bob.clone() };
    assert_eq!(set(&house, &unknown, "none").await.status, 404);
    let refused = set(&house, &bob, "closed").await;
    assert_eq!((refused.status, &refused.body["details"]["field"]), (422, &json!("inbound")));
    assert!(members(&refused.body).contains(&"detail"));
}

#[tokio::test]
async fn a_policy_is_shown_while_somebody_else_changes_it() {
    let house = House::open().await;
    let bob = house.register().await;
    let mut change = house.db.acquire().await.unwrap();
    sqlx::raw_sql("begin; select from agent for no key update").execute(&mut *change).await.unwrap();
    let path = format!("/agents/{}/inbound", bob.id);
    let shown = owned(&house, 0, &bob.owner_key, Method::GET, &path, Value::Null).await;
    assert_eq!((shown.status, &shown.body["inbound"]), (200, &json!("open")), "{}", shown.body);
    sqlx::raw_sql("rollback").execute(&mut *change).await.unwrap();
}
