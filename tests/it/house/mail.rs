//! Mail of a house's agents: a letter to send, and what the database holds.

use serde_json::{Value, json};

use super::{Agent, House};

/// What `mailbox_send` takes for a plain message.
pub fn letter(to: &Agent, body: &str) -> Value {
    json!({ "recipient_agent_id": to.id, "body": body })
}

/// How many messages of agents are stored.
pub async fn stored(house: &House) -> i64 {
    sqlx::query_scalar("select count(*) from message where sender_agent_id is not null")
        .fetch_one(&house.db)
        .await
        .unwrap()
}

/// Unacked mail from peers in a mailbox: entries there are, and what its row counts.
pub async fn unacked(house: &House, agent: &Agent) -> (i64, i32) {
    sqlx::query_as(
        "select (select count(*) from inbox_entry e where e.agent_id = m.agent_id and e.counted and e.acked_at is null),
            m.counted from mailbox m where m.agent_id = $1::text::uuid",
    )
    .bind(&agent.id)
    .fetch_one(&house.db)
    .await
    .unwrap()
}
