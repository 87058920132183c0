//! Webhooks: who is told of mail, where and how, and that nothing leaves for anywhere else.

mod delivery;
mod documented;
mod faults;
#[expect(clippy::disallowed_methods, reason = "what receivers do: they have no call whose time they could take")]
#[rustfmt::skip]
mod genuine;
mod hostile;
pub mod receiver;
mod registering;
mod restarts;
mod traces;

use reqwest::Method;
use serde_json::{Value, json};
use waypost::config::Config;

use crate::house::{Agent, Answer, House, settings, until};
use receiver::{Receiver, authority};

/// Settings of pods that believe the tests' endpoints.
fn believing() -> Config {
    Config { egress_ca: Some(authority()), ..settings() }
}

/// One pod, and an endpoint it can reach.
async fn with_endpoint() -> (House, Receiver) {
    (House::with_pods(1, believing()).await, Receiver::open().await)
}

/// Registers a webhook; its answer.
async fn hook(house: &House, agent: &Agent, url: &str) -> Value {
    house.ok(agent, "webhook_register", json!({ "url": url, "secret": "hunter2" })).await
}

/// Registers a webhook and waits until its endpoint has echoed.
async fn active(house: &House, agent: &Agent, url: &str) {
    hook(house, agent, url).await;
    until("active", async || shown(house, agent).await["state"] == "active").await;
}

/// An agent whose webhook is active and has told of the welcome.
async fn told(house: &House, receiver: &Receiver, path: &str) -> Agent {
    let agent = house.register().await;
    active(house, &agent, &receiver.url(path)).await;
    until("told of the welcome", async || receiver.notices(path).len() == 1).await;
    until("written down", async || due(house, &agent).await.is_none()).await;
    agent
}

/// How the webhook stands, as its agent sees it.
async fn shown(house: &House, agent: &Agent) -> Value {
    at(house, agent, Method::GET, "").await.body
}

/// A request at the routes of an agent's own webhook.
async fn at(house: &House, agent: &Agent, method: Method, rest: &str) -> Answer {
    let url = format!("{}/api/v1/agents/{}/webhook{rest}", house.url(0), agent.id);
    house.send(house.http().request(method, url), Some(&agent.key)).await
}

/// When the webhook is due next.
async fn due(house: &House, agent: &Agent) -> Option<time::OffsetDateTime> {
    sqlx::query_scalar("select due_at from webhook where agent_id = $1::text::uuid")
        .bind(&agent.id)
        .fetch_one(&house.db)
        .await
        .unwrap()
}

/// Changes a webhook's row, as time or a mistake would.
async fn set(house: &House, agent: &Agent, what: &str) {
    let change = format!("update webhook set {what} where agent_id = $1::text::uuid");
    let changed = sqlx::query(sqlx::AssertSqlSafe(change)).bind(&agent.id).execute(&house.db).await.unwrap();
    assert_eq!(changed.rows_affected(), 1);
}

/// The texts of the service's own notices in an agent's mailbox.
async fn system_notices(house: &House, agent: &Agent) -> Vec<String> {
    let page = house.ok(agent, "mailbox_check", json!({ "limit": 100 })).await;
    let messages = page["messages"].as_array().unwrap().iter();
    let of_system = messages.filter(|message| message["sender_type"] == "system");
    of_system.map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}
