//! The mailbox toolset, tool by tool: what its contract promises, seen through the REST door.

mod ack;
mod ack_reply;
mod caps;
mod check;
mod claim;
mod claim_races;
mod in_reply_to;
mod keys;
mod names;
mod owner;
mod policy;
mod probe;
mod register;
mod register_limit;
mod register_owner;
mod secrets;
mod send;
mod send_retries;
mod tidying;
mod wait;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _};
use uuid::Uuid;
use waypost::chores;
use waypost::config::{Chore, Config, OrgChore, Registration};
use waypost::operator;

use crate::house::{Agent, Answer, House, settings};

/// Two pods on one database.
async fn two_pods() -> House {
    House::with_pods(2, settings()).await
}

/// One pod whose mailboxes hold so much mail, in all and of each sender.
async fn with_caps(pods: usize, mailbox: u32, sender: u32) -> House {
    let caps = waypost::config::Caps { mailbox, sender };
    House::with_pods(pods, Config { caps, ..settings() }).await
}

/// An agent with an empty mailbox: it has acked its welcome.
async fn settled(house: &House) -> Agent {
    let agent = house.register().await;
    settle(house, &agent).await;
    agent
}

/// Claims and acks all that waits.
async fn settle(house: &House, agent: &Agent) {
    let claimed = house.ok(agent, "mailbox_claim", json!({})).await;
    let ids = ids(&claimed["messages"]);
    house.ok(agent, "mailbox_ack", json!({ "message_ids": ids })).await;
}

/// What stands in the whole mailbox, without the welcome and other notices.
async fn mail(house: &House, agent: &Agent) -> Vec<Value> {
    let checked = house.ok(agent, "mailbox_check", json!({ "limit": 100 })).await;
    let messages = checked["messages"].as_array().unwrap().clone();
    messages.into_iter().filter(|message| message["sender_type"] == "agent").collect()
}

/// The counts, without a poll.
async fn summary(house: &House, agent: &Agent) -> Value {
    let answer = house.get(0, "/api/v1/mailbox/summary", Some(&agent.key)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

fn ids(messages: &Value) -> Vec<String> {
    let messages = messages.as_array().unwrap().iter();
    messages.map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

fn bodies(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["body"].as_str().unwrap()).collect()
}

/// The arguments of a plain message.
fn send_to(agent: &Agent) -> Value {
    json!({ "recipient_agent_id": agent.id, "body": "hi" })
}

/// `base` with more members.
fn with(mut base: Value, more: Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

/// An id that nothing has.
fn nobody() -> String {
    Uuid::now_v7().to_string()
}

/// The names of an object's members, sorted.
fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// A call at one of the owner's routes, below `/api/v1`.
async fn owned(
    house: &House,
    pod: usize,
    owner_key: &str,
    method: Method,
    path: &str,
    body: Value,
) -> Answer {
    let url = format!("{}/api/v1{path}", house.url(pod));
    let mut request = house.http().request(method, url).header("x-owner-key", owner_key);
    if !body.is_null() {
        request = request.json(&body);
    }
    house.send(request, None).await
}

/// Makes an organization, as the operator does.
async fn organization(house: &House, slug: &str, registration: Registration) {
    let create = OrgChore::Create { slug: slug.into(), registration };
    operator::run(house.options.clone(), Chore::Org(create)).await.unwrap();
}

/// Registers at an organization's own address.
async fn register_at(house: &House, slug: &str, arguments: Value) -> Answer {
    house.post(0, &format!("/o/{slug}/api/v1/onboard"), None, &arguments).await
}

/// The agent of a registration's answer.
fn agent_of(registered: &Value) -> Agent {
    let text = |name: &str| registered[name].as_str().unwrap_or_default().to_owned();
    Agent {
        id: text("agent_id"),
        name: text("agent_name"),
        key: text("api_key"),
        owner_key: text("owner_key"),
    }
}

/// Changes the database behind the service's back; `$1` is the agent.
async fn tamper(house: &House, agent: &Agent, sql: &str) {
    let id: Uuid = agent.id.parse().unwrap();
    let changed = sqlx::query(AssertSqlSafe(sql)).bind(id).execute(&house.db).await.unwrap();
    assert!(changed.rows_affected() > 0, "{sql}");
}

/// One number out of the database; `$1` is the agent.
async fn number(house: &House, agent: &Agent, sql: &str) -> i64 {
    let id: Uuid = agent.id.parse().unwrap();
    sqlx::query_scalar(AssertSqlSafe(sql)).bind(id).fetch_one(&house.db).await.unwrap()
}

async fn do_chores(house: &House) {
    let mut db = sqlx::PgConnection::connect_with(&house.options).await.unwrap();
    let failures = chores::run_all(&mut db).await;
    assert!(failures.is_empty(), "{failures:?}");
}

/// Looks again and again until it is so; ten seconds are too many.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}
