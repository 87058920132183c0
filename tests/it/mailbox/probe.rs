//! Probes: an ack that proves that somebody reads, refused whole without the proof.

use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{mail, owned, settled};
use crate::house::{Agent, House, send, until};

/// Probes an agent; gives the probe as it stands in the mailbox.
async fn probed(house: &House, agent: &Agent) -> Value {
    let path = format!("/agents/{}/probe", agent.id);
    let answer = owned(house, 0, &agent.owner_key, Method::POST, &path, json!({})).await;
    assert_eq!((answer.status, super::members(&answer.body)), (201, vec!["message_id"]));
    let path = format!("/api/v1/mailbox/messages/{}", answer.body["message_id"].as_str().unwrap());
    house.get(0, &path, Some(&agent.key)).await.body
}

fn proof(probe: &Value) -> Value {
    let nonce = probe["probe"]["nonce"].as_str().unwrap();
    let hash = Sha256::digest(format!("{nonce}{}", probe["body"].as_str().unwrap()));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "nonce": nonce, "body_hash": hash })
}

async fn verified(house: &House, agent: &Agent) -> bool {
    house.ok(agent, "who_am_i", json!({})).await["verified"] == true
}

#[tokio::test]
async fn the_right_proof_acks_a_probe_and_verifies_the_agent() {
    let house = House::open().await;
    let bob = settled(&house).await;
    let probe = probed(&house, &bob).await;
    assert_eq!((&probe["sender_type"], &probe["message_type"]), (&json!("system"), &json!("system")));
    let right = proof(&probe);
    let mut other_hash = right.clone();
    other_hash["body_hash"] = json!("00");
    for (body, code) in [
        (None, "probe_nonce_mismatch"),
        (Some(json!({})), "probe_nonce_mismatch"),
        (Some(json!({ "nonce": "x", "body_hash": right["body_hash"] })), "probe_nonce_mismatch"),
        (Some(json!({ "nonce": right["nonce"] })), "probe_body_hash_mismatch"),
        (Some(other_hash), "probe_body_hash_mismatch"),
    ] {
        let arguments = json!({ "message_ids": [probe["id"]], "ack_body": body });
        let refused = house.refused(&bob, "mailbox_ack", arguments, code).await;
        assert_eq!((&refused["status"], &refused["details"]["message_id"]), (&json!(422), &probe["id"]));
        assert!(!verified(&house, &bob).await);
    }
    let arguments = json!({ "message_ids": [probe["id"]], "ack_body": right });
    assert_eq!(house.ok(&bob, "mailbox_ack", arguments.clone()).await["acked"], 1);
    assert!(verified(&house, &bob).await);
    let at: Option<time::OffsetDateTime> =
        sqlx::query_scalar("select verified_at from agent").fetch_one(&house.db).await.unwrap();
    assert!(at.is_some());
    assert_eq!(house.ok(&bob, "mailbox_ack", arguments).await["already_acked"], 1);
    // Settled for good: without the proof too.
    assert_eq!(
        house.ok(&bob, "mailbox_ack", json!({ "message_ids": [probe["id"]] })).await["already_acked"],
        1
    );
}

#[tokio::test]
async fn a_batch_with_an_unproven_probe_is_refused_whole() {
    let house = House::open().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    let id = send(&house, &ada, &bob, "mail").await;
    let (one, two) = (probed(&house, &bob).await, probed(&house, &bob).await);
    let batch = json!({ "message_ids": [id, one["id"]], "reply_text": "hello", "ack_id": "k" });
    let refused = house.refused(&bob, "mailbox_ack", batch, "probe_nonce_mismatch").await;
    assert_eq!(refused["details"]["message_id"], one["id"]);
    let both = json!({ "message_ids": [id, one["id"], two["id"]], "ack_body": proof(&one) });
    let refused = house.refused(&bob, "mailbox_ack", both, "probe_nonce_mismatch").await;
    assert_eq!(refused["details"]["message_id"], two["id"], "a proof is for one probe");
    assert_eq!(mail(&house, &bob).await[0]["state"], "pending");
    assert!(mail(&house, &ada).await.is_empty() && !verified(&house, &bob).await);
    let proven = json!({ "message_ids": [id, one["id"]], "ack_body": proof(&one), "reply_text": "hello", "ack_id": "k" });
    let acked = house.ok(&bob, "mailbox_ack", proven).await;
    assert_eq!((&acked["acked"], acked["reply"].is_object()), (&json!(2), true));
    assert!(verified(&house, &bob).await);
}

#[tokio::test]
async fn only_the_owner_probes_an_agent() {
    let house = House::open().await;
    let (bob, stranger) = (house.register().await, house.register().await);
    let path = format!("/agents/{}/probe", bob.id);
    let refused = owned(&house, 0, &stranger.owner_key, Method::POST, &path, json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("forbidden")));
    let unknown = format!("/agents/{}/probe", super::nobody());
    assert_eq!(owned(&house, 0, &bob.owner_key, Method::POST, &unknown, json!({})).await.status, 404);
    assert_eq!(house.post(0, &format!("/api/v1{path}"), Some(&bob.key), &json!({})).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_waits_for_the_mailbox_holds_nothing_that_an_ack_needs() {
    let house = House::open().await;
    let bob = settled(&house).await;
    let mut ack = house.db.acquire().await.unwrap();
    sqlx::raw_sql("begin; select from mailbox for no key update").execute(&mut *ack).await.unwrap();
    let path = format!("/agents/{}/probe", bob.id);
    let verify = async {
        let waiting = "select exists (select from pg_stat_activity where datname = current_database()
            and wait_event_type = 'Lock' and query like '-- inbox.lock%')";
        let look = async || sqlx::query_scalar(waiting).fetch_one(&house.db).await.unwrap();
        until("the probe waits for the mailbox", look).await;
        let verify = "select from agent for no key update nowait";
        let verified = sqlx::query(verify).execute(&mut *ack).await;
        sqlx::raw_sql("rollback").execute(&mut *ack).await.unwrap();
        verified
    };
    let probe = owned(&house, 0, &bob.owner_key, Method::POST, &path, json!({}));
    let (probe, verified) = tokio::join!(probe, verify);
    assert_eq!(probe.status, 201, "{}", probe.body);
    verified.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_and_acks_of_probes_at_once_never_lock_each_other_out() {
    let house = super::two_pods().await;
    let bob = settled(&house).await;
    let mut probe = probed(&house, &bob).await;
    for _ in 0..20 {
        let arguments = json!({ "message_ids": [probe["id"]], "ack_body": proof(&probe) });
        let ack = house.call(1, &bob, "mailbox_ack", arguments);
        let (next, acked, _) = tokio::join!(probed(&house, &bob), ack, probed(&house, &bob));
        assert_eq!(acked.status, 200, "{}", acked.body);
        probe = next;
    }
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    let deadlocks: i64 = sqlx::query_scalar(deadlocks).fetch_one(&house.db).await.unwrap();
    assert_eq!(deadlocks, 0);
}
