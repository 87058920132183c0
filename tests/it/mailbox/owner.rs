//! The owner's list of agents, and what becomes of registrations that nobody uses.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reqwest::Method;
use serde_json::{Value, json};

use super::{do_chores, members, nobody, number, owned, settled, tamper};
use crate::house::{Agent, House, send};

async fn page(house: &House, owner_key: &str, query: &str) -> Value {
    let answer = owned(house, 0, owner_key, Method::GET, &format!("/agents{query}"), Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

#[tokio::test]
async fn an_owner_sees_its_agents_and_their_keys_but_no_secret() {
    let house = House::open().await;
    let bob = house.register_with(json!({ "agent_name": "Bob", "description": "does things" })).await;
    let other = house.register().await;
    house.ok(&bob, "mailbox_claim", json!({})).await;
    let listed = page(&house, &bob.owner_key, "").await;
    assert_eq!(members(&listed), ["agents"]);
    let [agent] = listed["agents"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    let fields = "agent_id agent_name created_at inbound keys last_polled_at permanent profile verified";
    assert_eq!(members(agent).join(" "), fields);
    assert_eq!(
        (&agent["agent_name"], &agent["permanent"], &agent["inbound"]),
        (&json!("Bob"), &json!(true), &json!("open"))
    );
    assert_eq!(agent["profile"]["description"], "does things");
    assert_eq!(members(&agent["keys"][0]).join(" "), "created_at key_id key_prefix");
    assert_eq!(agent["keys"][0]["key_prefix"], bob.key[..10]);
    assert!(page(&house, &other.owner_key, "").await["agents"][0]["last_polled_at"].is_null());
    assert_eq!(
        house.get(0, "/api/v1/agents", Some(&bob.key)).await.status,
        401,
        "an agent key lists nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_agents_cover_all_of_them_once_whatever_their_size() {
    let house = House::open().await;
    let first = house.register().await;
    let mut all = vec![first.id.clone()];
    for _ in 0..22 {
        all.push(house.register_with(json!({ "owner_key": first.owner_key })).await.id);
    }
    house.register().await;
    // Several of the same instant: the id decides between them.
    sqlx::query("update agent set created_at = date_trunc('second', created_at)")
        .execute(&house.db)
        .await
        .unwrap();
    let run = async |limit: usize| {
        let (mut seen, mut query, mut pages) = (Vec::new(), format!("?limit={limit}"), 0);
        loop {
            let page = page(&house, &first.owner_key, &query).await;
            let agents = page["agents"].as_array().unwrap();
            assert!(agents.len() <= limit);
            seen.extend(agents.iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()));
            pages += 1;
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            query = format!("?limit={limit}&cursor={cursor}");
        }
        let distinct: HashSet<&String> = seen.iter().collect();
        seen.len() == 23
            && distinct.len() == 23
            && all.iter().all(|id| distinct.contains(id))
            && pages == 23usize.div_ceil(limit)
    };
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() });
    let here = tokio::runtime::Handle::current();
    let cases = |limit: usize| {
        let covered = tokio::task::block_in_place(|| here.block_on(run(limit)));
        prop_assert!(covered, "pages of {limit}");
        Ok(())
    };
    runner.run(&(1usize..30), cases).unwrap();
}

#[tokio::test]
async fn a_cursor_of_another_listing_or_a_broken_one_is_refused() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, house.register().await);
    for owner in [&ada, &bob] {
        house.register_with(json!({ "owner_key": owner.owner_key })).await;
    }
    let cursor = page(&house, &ada.owner_key, "?limit=1").await["next_cursor"].as_str().unwrap().to_owned();
    let listing =
        format!("agents/{}", house.ok(&ada, "who_am_i", json!({})).await["owner_id"].as_str().unwrap());
    let forged = json!({ "of": listing, "at": [-377_705_116_800_000_000_i64, ada.id] }).to_string();
    let forged = URL_SAFE_NO_PAD.encode(forged);
    for (cursor, field) in
        [(cursor.as_str(), "cursor"), (&forged, "cursor"), ("abc", "cursor"), ("", "cursor")]
    {
        let path = format!("/agents?cursor={cursor}");
        let refused = owned(&house, 0, &bob.owner_key, Method::GET, &path, Value::Null).await;
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("validation_error")), "{cursor}");
        assert_eq!(refused.body["details"]["field"], field);
    }
    for limit in ["0", "101", "x"] {
        let path = format!("/agents?limit={limit}");
        assert_eq!(
            owned(&house, 0, &bob.owner_key, Method::GET, &path, Value::Null).await.status,
            422,
            "{limit}"
        );
    }
}

#[tokio::test]
async fn a_registration_that_never_polls_is_removed_after_a_day_with_all_it_had() {
    let house = House::open().await;
    let sender = settled(&house).await;
    let checked = house.register().await;
    house.ok(&checked, "mailbox_check", json!({})).await;
    let claimed = settled(&house).await;
    let idle = house.register().await;
    let young = house.register().await;
    send(&house, &sender, &idle, "never read").await;
    send(&house, &idle, &sender, "a send is no poll").await;
    let age = async |agent: &Agent, by: &str| {
        let sql =
            format!("update agent set created_at = clock_timestamp() - interval '{by}' where agent_id = $1");
        tamper(&house, agent, &sql).await;
    };
    for agent in [&sender, &checked, &claimed, &idle] {
        age(agent, "24 hours 1 second").await;
    }
    age(&young, "23 hours 59 minutes").await;
    house.ok(&idle, "who_am_i", json!({})).await;
    do_chores(&house).await;
    for agent in [&sender, &checked, &claimed, &young] {
        house.ok(agent, "who_am_i", json!({})).await;
    }
    // At once, though the gate knew the key a moment ago.
    for tool in ["who_am_i", "mailbox_check", "mailbox_claim"] {
        let refused = house.refused(&idle, tool, json!({}), "unauthorized").await;
        assert_eq!(refused["status"], 401, "{tool}");
    }
    for table in ["agent", "mailbox", "inbox_entry", "credential", "idempotency", "claim_run"] {
        assert_eq!(
            number(&house, &idle, &format!("select count(*) from {table} where agent_id = $1")).await,
            0,
            "{table}"
        );
    }
    let unread = "select count(*) from message where recipient_agent_id = $1";
    assert_eq!(number(&house, &idle, unread).await, 0);
    let to_idle = json!({ "recipient_agent_id": idle.id, "body": "hi" });
    let gone = house.refused(&sender, "mailbox_send", to_idle, "not_found").await;
    let unknown = json!({ "recipient_agent_id": nobody(), "body": "hi" });
    assert_eq!(house.refused(&sender, "mailbox_send", unknown, "not_found").await, gone);
    // What it wrote stays with those who have it; a reply has nowhere to go.
    let mail = super::mail(&house, &sender).await;
    let acked = json!({ "message_ids": [mail[0]["id"]], "reply_text": "hello?" });
    assert_eq!(house.ok(&sender, "mailbox_ack", acked).await["reply_skipped"], "sender_gone");
    // Polled once, kept for ever.
    age(&checked, "400 days").await;
    do_chores(&house).await;
    house.ok(&checked, "who_am_i", json!({})).await;
}
