//! `mailbox_ack`: done for good, once, whoever of the agent's sessions says so; retries answer the original.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ids, mail, members, nobody, owned, settled, summary, tamper, two_pods};
use crate::house::{Agent, House, send};

fn ack(ids: &[&str]) -> Value {
    json!({ "message_ids": ids })
}

#[tokio::test]
async fn an_ack_is_for_good_and_needs_no_lease() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let id = send(&house, &ada, &bob, "mail").await;
    let acked = house.ok(&bob, "mailbox_ack", ack(&[&id])).await;
    let expected = json!({ "acked": 1, "already_acked": 0, "unknown": [], "reply": null, "replayed": false });
    assert_eq!(acked, expected);
    let [message] = mail(&house, &bob).await.try_into().unwrap();
    assert_eq!(message["state"], "acked");
    assert!(message["acked_at"].is_string() && message["lease_expires_at"].is_null(), "{message}");
    let again = house.ok(&bob, "mailbox_ack", ack(&[&id, &id])).await;
    assert_eq!((&again["acked"], &again["already_acked"]), (&json!(0), &json!(1)));
    assert_eq!(mail(&house, &bob).await, [message], "the second ack changed something");
    for arguments in [json!({}), json!({ "message_ids": [id] })] {
        assert_eq!(house.ok(&bob, "mailbox_claim", arguments).await["messages"], json!([]));
    }
    assert_eq!(summary(&house, &bob).await["acked_total"], 2);
}

#[tokio::test]
async fn any_session_acks_what_any_run_leased_and_a_late_ack_counts() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let path = format!("/agents/{}/keys", bob.id);
    let added = owned(&house, 0, &bob.owner_key, Method::POST, &path, json!({})).await.body;
    let other = Agent { key: added["api_key"].as_str().unwrap().into(), ..bob.clone() };
    let (first, second) = (send(&house, &ada, &bob, "1").await, send(&house, &ada, &bob, "2").await);
    let mine = house.ok(&bob, "mailbox_claim", json!({ "limit": 1 })).await;
    assert_eq!(house.ok(&other, "mailbox_ack", ack(&[&first])).await["acked"], 1);
    let again = house.ok(&bob, "mailbox_claim", json!({ "run_id": mine["run_id"], "limit": 1 })).await;
    assert_eq!(ids(&again["messages"]), [second.as_str()]);
    // The lease ran out and another run holds the message now; the first to ack it settles it.
    let expire = "with runs as (update claim_run set lease_until = now() - interval '1 day' where agent_id = $1)
        update inbox_entry set lease_until = now() - interval '1 day' where agent_id = $1 and lease_until is not null";
    tamper(&house, &bob, expire).await;
    let stolen = house.ok(&other, "mailbox_claim", json!({})).await;
    assert_eq!(ids(&stolen["messages"]), [second.as_str()]);
    assert_eq!(house.ok(&bob, "mailbox_ack", ack(&[&second])).await["acked"], 1);
    assert_eq!(house.ok(&other, "mailbox_ack", ack(&[&second])).await["already_acked"], 1);
    let counts = summary(&house, &bob).await;
    assert_eq!(
        (&counts["pending"], &counts["claimed"], &counts["acked_total"]),
        (&json!(0), &json!(0), &json!(3))
    );
}

#[tokio::test]
async fn unknown_ids_are_listed_and_if_none_is_known_nothing_happens() {
    let house = House::open().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    let (id, foreign) = (send(&house, &ada, &bob, "mail").await, send(&house, &bob, &ada, "not bobs").await);
    let unknown = nobody();
    let refused = house.refused(&bob, "mailbox_ack", ack(&[&unknown]), "not_found").await;
    assert_eq!(refused["status"], 404);
    assert_eq!(house.refused(&bob, "mailbox_ack", ack(&[&foreign]), "not_found").await, refused, "alike");
    let with_key = json!({ "message_ids": [unknown], "ack_id": "k", "reply_text": "hello" });
    house.refused(&bob, "mailbox_ack", with_key, "not_found").await;
    assert_eq!(mail(&house, &ada).await[0]["state"], "pending");
    let acked = json!({ "message_ids": [unknown, id, foreign, unknown], "ack_id": "k" });
    let acked = house.ok(&bob, "mailbox_ack", acked).await;
    assert_eq!((&acked["acked"], &acked["unknown"]), (&json!(1), &json!([unknown, foreign])));
}

#[tokio::test]
async fn a_retry_with_the_same_ack_id_answers_the_original() {
    let house = House::open().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    let (first, second) = (send(&house, &ada, &bob, "1").await, send(&house, &ada, &bob, "2").await);
    let arguments = json!({ "message_ids": [first], "ack_id": "k", "reply_text": "done" });
    let original = house.ok(&bob, "mailbox_ack", arguments.clone()).await;
    assert_eq!(members(&original).join(" "), "acked already_acked replayed reply unknown");
    house.ok(&bob, "mailbox_ack", ack(&[&second])).await;
    let mut replayed = original.clone();
    replayed["replayed"] = json!(true);
    for _ in 0..2 {
        assert_eq!(house.ok(&bob, "mailbox_ack", arguments.clone()).await, replayed);
    }
    assert_eq!(mail(&house, &ada).await.len(), 1, "one reply");
    for other in [
        json!({ "message_ids": [first], "ack_id": "k" }),
        json!({ "message_ids": [second], "ack_id": "k", "reply_text": "done" }),
        json!({ "message_ids": [first], "ack_id": "k", "reply_text": "other" }),
        json!({ "message_ids": [first], "ack_id": "k", "reply_text": "done", "ack_body": {} }),
    ] {
        assert_eq!(house.refused(&bob, "mailbox_ack", other, "idempotency_conflict").await["status"], 409);
    }
    // Another agent's key of the same text, and a send's, are other keys.
    let mine = mail(&house, &ada).await[0]["id"].clone();
    assert_eq!(
        house.ok(&ada, "mailbox_ack", json!({ "message_ids": [mine], "ack_id": "k" })).await["replayed"],
        false
    );
    let send_key = json!({ "recipient_agent_id": ada.id, "body": "hi", "client_message_id": "k" });
    assert_eq!(house.ok(&bob, "mailbox_send", send_key).await["deduplicated"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_retries_of_one_ack_on_two_pods_send_one_reply() {
    let house = two_pods().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    for round in 0..8 {
        let id = send(&house, &ada, &bob, "mail").await;
        let arguments = json!({ "message_ids": [id], "ack_id": format!("k{round}"), "reply_text": "done" });
        let racers = (0..6).map(|racer| house.call(racer % 2, &bob, "mailbox_ack", arguments.clone()));
        let answers = join_all(racers).await;
        for answer in &answers {
            assert_eq!((answer.status, &answer.body["acked"]), (200, &json!(1)), "{}", answer.body);
            assert_eq!(answer.body["reply"], answers[0].body["reply"]);
        }
        assert_eq!(answers.iter().filter(|answer| answer.body["replayed"] == false).count(), 1);
        assert_eq!(mail(&house, &ada).await.len(), round + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_acks_of_one_message_on_two_pods_settle_it_once() {
    let house = two_pods().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    for round in 1..=8 {
        let id = send(&house, &ada, &bob, "mail").await;
        house.ok(&bob, "mailbox_claim", json!({})).await;
        let arguments = json!({ "message_ids": [id], "reply_text": "done" });
        let racers = (0..6).map(|racer| house.call(racer % 2, &bob, "mailbox_ack", arguments.clone()));
        let answers = join_all(racers).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.body["acked"] == 1);
        assert_eq!(won.len(), 1, "{:?}", answers.iter().map(|a| &a.body).collect::<Vec<_>>());
        assert!(won[0].body["reply"].is_object());
        for answer in lost {
            assert_eq!((&answer.body["already_acked"], &answer.body["reply"]), (&json!(1), &Value::Null));
            assert_eq!(answer.body["reply_skipped"], "already_acked", "a missing reply says why");
        }
        assert_eq!(mail(&house, &ada).await.len(), round);
        let counts = summary(&house, &bob).await;
        assert_eq!(
            (&counts["pending"], &counts["claimed"], &counts["acked_total"]),
            (&json!(0), &json!(0), &json!(round + 1))
        );
    }
}

#[tokio::test]
async fn acks_are_judged() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let id = send(&house, &ada, &bob, "mail").await;
    for (more, field) in [
        (json!({ "message_ids": [] }), "message_ids"),
        (json!({ "message_ids": null }), "message_ids"),
        (json!({ "message_ids": ["x"] }), "message_ids[0]"),
        (json!({ "ack_id": "" }), "ack_id"),
        (json!({ "ack_id": " " }), "ack_id"),
        (json!({ "ack_id": "k".repeat(129) }), "ack_id"),
        (json!({ "reply_text": "x".repeat(4001) }), "reply_text"),
        (json!({ "ack_body": [] }), "ack_body"),
        (json!({ "ack_body": "x" }), "ack_body"),
    ] {
        let mut arguments = json!({ "message_ids": [id] });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = house.refused(&bob, "mailbox_ack", arguments, "validation_error").await;
        assert_eq!((&refused["status"], &refused["details"]["field"]), (&json!(422), &json!(field)));
    }
    let unknown = house.refused(&bob, "mailbox_ack", json!({ "ids": [id] }), "unknown_field").await;
    assert_eq!(unknown["suggestion"], "message_ids");
    let most = json!({ "message_ids": [id], "ack_id": "é".repeat(128), "reply_text": "𝒳".repeat(4000) });
    assert!(house.ok(&bob, "mailbox_ack", most).await["reply"].is_object());
}

#[tokio::test]
async fn an_ack_body_is_kept_as_it_came() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let id = send(&house, &ada, &bob, "mail").await;
    let body = json!({ "outcome": "done", "n": [1, { "x": null }] });
    house.ok(&bob, "mailbox_ack", json!({ "message_ids": [id], "ack_body": body })).await;
    let kept: Vec<Value> = sqlx::query_scalar("select ack_body from inbox_entry where ack_body is not null")
        .fetch_all(&house.db)
        .await
        .unwrap();
    assert_eq!(kept, [body]);
}

#[tokio::test]
async fn a_used_ack_id_is_a_conflict_even_where_the_call_would_be_refused_by_itself() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let id = send(&house, &ada, &bob, "mail").await;
    let first = json!({ "message_ids": [id], "ack_id": "once" });
    house.ok(&bob, "mailbox_ack", first.clone()).await;
    let unknown = json!({ "message_ids": [nobody()], "ack_id": "once" });
    house.refused(&bob, "mailbox_ack", unknown, "idempotency_conflict").await;
    let unused = json!({ "message_ids": [nobody()], "ack_id": "never" });
    house.refused(&bob, "mailbox_ack", unused, "not_found").await;
    assert_eq!(house.ok(&bob, "mailbox_ack", first).await["replayed"], true);
}
