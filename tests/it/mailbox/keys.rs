//! Keys: renewed, added, revoked; a revoked one is refused on every pod within a second and ends what it holds.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;
use waypost::config::Registration;

use super::{members, nobody, number, organization, owned, register_at, settled, two_pods};
use crate::house::{Agent, Answer, House, send, until};

async fn renew(house: &House, owner_key: &str, arguments: Value) -> Answer {
    owned(house, 0, owner_key, Method::POST, "/api-keys", arguments).await
}

async fn add_key(house: &House, agent: &Agent) -> (String, Agent) {
    let answer =
        owned(house, 0, &agent.owner_key, Method::POST, &format!("/agents/{}/keys", agent.id), json!({}))
            .await;
    assert_eq!((answer.status, members(&answer.body)), (201, vec!["api_key", "key_id"]));
    let key = answer.body["api_key"].as_str().unwrap().to_owned();
    (answer.body["key_id"].as_str().unwrap().to_owned(), Agent { key, ..agent.clone() })
}

async fn revoke(house: &House, agent: &Agent, key_id: &str) -> Answer {
    let path = format!("/agents/{}/keys/{key_id}", agent.id);
    owned(house, 0, &agent.owner_key, Method::DELETE, &path, Value::Null).await
}

async fn works(house: &House, pod: usize, agent: &Agent) -> bool {
    let answer = house.call(pod, agent, "who_am_i", json!({})).await;
    assert!(matches!(answer.status, 200 | 401), "{}", answer.body);
    assert!(answer.status == 200 || answer.body["code"] == "unauthorized");
    answer.status == 200
}

#[tokio::test]
async fn renewing_replaces_every_key_and_nothing_else() {
    let house = House::open().await;
    let bob = settled(&house).await;
    let (_, second) = add_key(&house, &bob).await;
    send(&house, &bob, &bob, "mine").await;
    let renewed = renew(&house, &bob.owner_key, json!({ "agent_id": bob.id })).await;
    assert_eq!((renewed.status, members(&renewed.body)), (201, vec!["agent_id", "api_key", "revoked"]));
    assert_eq!((&renewed.body["agent_id"], &renewed.body["revoked"]), (&json!(bob.id), &json!(2)));
    let fresh = Agent { key: renewed.body["api_key"].as_str().unwrap().into(), ..bob.clone() };
    assert!(
        !works(&house, 0, &bob).await && !works(&house, 0, &second).await && works(&house, 0, &fresh).await
    );
    assert_eq!(super::mail(&house, &fresh).await.len(), 1, "the mailbox stays");
    let refused = house.call(0, &bob, "who_am_i", json!({})).await;
    assert!(refused.headers.contains_key("www-authenticate"));
    // As the tool, with the owner key as an argument.
    let by_tool = json!({ "owner_key": bob.owner_key });
    let by_tool = house.post(0, "/api/v1/tools/renew_agent_key", None, &by_tool).await;
    assert_eq!((by_tool.status, &by_tool.body["revoked"]), (200, &json!(1)));
}

#[tokio::test]
async fn without_an_id_the_oldest_agent_is_renewed() {
    let house = House::open().await;
    let first = house.register().await;
    for _ in 0..3 {
        house.register_with(json!({ "owner_key": first.owner_key })).await;
    }
    assert_eq!(renew(&house, &first.owner_key, json!({})).await.body["agent_id"], first.id);
}

#[tokio::test]
async fn another_owners_agent_is_forbidden_and_another_organizations_unknown() {
    let house = House::open().await;
    organization(&house, "acme", Registration::Open).await;
    let (ada, bob) = (house.register().await, house.register().await);
    let far = Agent::of(&register_at(&house, "acme", json!({})).await.body);
    let forbidden = renew(&house, &ada.owner_key, json!({ "agent_id": bob.id })).await;
    assert_eq!((forbidden.status, &forbidden.body["code"]), (403, &json!("forbidden")));
    let unknown = renew(&house, &ada.owner_key, json!({ "agent_id": nobody() })).await;
    assert_eq!((unknown.status, &unknown.body["code"]), (404, &json!("not_found")));
    assert_eq!(
        renew(&house, &ada.owner_key, json!({ "agent_id": far.id })).await.body,
        unknown.body,
        "alike"
    );
    for (agent_id, status) in [(json!(""), 422), (json!("x"), 422), (json!(null), 201)] {
        assert_eq!(renew(&house, &ada.owner_key, json!({ "agent_id": agent_id })).await.status, status);
    }
    let none = house.post(0, "/api/v1/api-keys", None, &json!({})).await;
    assert_eq!((none.status, &none.body["code"]), (401, &json!("unauthorized")));
    let wrong_kind = renew(&house, &bob.key, json!({})).await;
    assert_eq!((wrong_kind.status, &wrong_kind.body["code"]), (403, &json!("forbidden")));
    assert!(works(&house, 0, &bob).await && works(&house, 0, &far).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_is_refused_on_every_pod_within_a_second() {
    let house = two_pods().await;
    let bob = house.register().await;
    for _ in 0..3 {
        let (key_id, second) = add_key(&house, &bob).await;
        let who = house.ok(&second, "who_am_i", json!({})).await;
        assert_eq!(who["session_id"], key_id);
        // Both pods know the key well at this moment.
        assert!(works(&house, 0, &second).await && works(&house, 1, &second).await);
        let revoked = revoke(&house, &bob, &key_id).await;
        let began = Instant::now();
        assert_eq!((revoked.status, &revoked.body["key_id"]), (200, &json!(key_id)), "{}", revoked.body);
        until("both refuse", async || !works(&house, 0, &second).await && !works(&house, 1, &second).await)
            .await;
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(works(&house, 0, &bob).await && works(&house, 1, &bob).await, "the other key stands");
        assert_eq!(revoke(&house, &bob, &key_id).await.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_held_on_another_pod_ends_with_unauthorized_when_its_key_is_revoked() {
    let house = two_pods().await;
    let bob = settled(&house).await;
    for pod in [1, 0] {
        let (key_id, second) = add_key(&house, &bob).await;
        let forget = "delete from poll where agent_id = $1";
        super::tamper(&house, &bob, forget).await;
        let held = house.call(pod, &second, "mailbox_check", json!({ "since": 1, "wait": 25 }));
        let revoking = async {
            let polls = "select count(*) from poll where agent_id = $1";
            until("it is held", async || number(&house, &bob, polls).await == 1).await;
            assert_eq!(revoke(&house, &bob, &key_id).await.status, 200);
            Instant::now()
        };
        let (held, revoked_at) = tokio::join!(async { (held.await, Instant::now()) }, revoking);
        assert_eq!((held.0.status, &held.0.body["code"]), (401, &json!("unauthorized")), "{}", held.0.body);
        let took = held.1.saturating_duration_since(revoked_at);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[tokio::test]
async fn only_its_owner_adds_and_revokes_an_agents_keys() {
    let house = House::open().await;
    let (bob, stranger) = (house.register().await, house.register().await);
    let keys = format!("/agents/{}/keys", bob.id);
    assert_eq!(owned(&house, 0, &stranger.owner_key, Method::POST, &keys, json!({})).await.status, 403);
    let (key_id, _) = add_key(&house, &bob).await;
    let path = format!("{keys}/{key_id}");
    assert_eq!(owned(&house, 0, &stranger.owner_key, Method::DELETE, &path, Value::Null).await.status, 403);
    // A key of another of the owner's agents is not this agent's key.
    let sibling = house.register_with(json!({ "owner_key": bob.owner_key })).await;
    let path = format!("/agents/{}/keys/{key_id}", sibling.id);
    assert_eq!(owned(&house, 0, &bob.owner_key, Method::DELETE, &path, Value::Null).await.status, 404);
    let path = format!("/agents/{}/keys", nobody());
    assert_eq!(owned(&house, 0, &bob.owner_key, Method::POST, &path, json!({})).await.status, 404);
    assert!(key_id.parse::<Uuid>().is_ok());
}
