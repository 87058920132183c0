//! Whose mail an agent takes: the policy its owner sets, and whom it blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::guard;
use super::owned::check_owned;
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};

/// Whose mail an agent takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Policy {
    /// Everybody's.
    Open,
    /// Of those it wrote to, and of its owner's other agents.
    Known,
    /// Nobody's.
    None,
}

/// Show whose mail one of your agents takes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct InboundShow {
    /// The agent.
    agent_id: Uuid,
}

/// Set whose mail one of your agents takes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct InboundSet {
    /// The agent.
    agent_id: Uuid,
    /// open = everybody, known = those it wrote to and your other agents, none = nobody.
    inbound: Policy,
}

/// Whose mail an agent takes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Inbound {
    /// The agent.
    agent_id: Uuid,
    /// The policy.
    inbound: Policy,
    /// Senders it takes no mail from, whatever the policy.
    blocked: Vec<Uuid>,
}

impl Tool for InboundShow {
    type Answer = Inbound;
    const SPEC: Spec = Spec {
        name: "inbound_show",
        title: "Show whose mail an agent takes",
        access: Access::Owner,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Routes,
        routes: &[Route::get("/api/v1/agents/{agent_id}/inbound")],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Inbound> {
        check_owned(call, self.agent_id).await?;
        show(call.db.get().await?, call.caller.org.org_id, self.agent_id).await
    }
}

impl Tool for InboundSet {
    type Answer = Inbound;
    const SPEC: Spec = Spec {
        name: "inbound_set",
        title: "Set whose mail an agent takes",
        access: Access::Owner,
        effect: Effect::Transaction,
        hints: Hints::SETS,
        reach: Reach::Routes,
        routes: &[Route::put("/api/v1/agents/{agent_id}/inbound")],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Inbound> {
        guard::lock(call, self.agent_id).await?;
        let org_id = call.caller.org.org_id;
        let db = call.db.get().await?;
        sqlx::query(
            "-- mailbox.inbound_set
             update agent set inbound = $3 where org_id = $1 and agent_id = $2",
        )
        .bind(org_id)
        .bind(self.agent_id)
        .bind(self.inbound)
        .execute(&mut *db)
        .await?;
        guard::note(db, org_id, self.agent_id).await?;
        show(db, org_id, self.agent_id).await
    }
}

async fn show(db: &mut PgConnection, org_id: Uuid, agent_id: Uuid) -> Result<Inbound> {
    let row = sqlx::query(
        "-- mailbox.inbound_show
         select a.inbound, array(
            select b.sender_agent_id from inbound_block b where b.org_id = a.org_id and b.agent_id = a.agent_id
            order by b.created_at, b.sender_agent_id) as blocked
         from agent a where a.org_id = $1 and a.agent_id = $2",
    )
    .bind(org_id)
    .bind(agent_id)
    .fetch_optional(db)
    .await?;
    let row = row.ok_or(Error::NotFound("agent"))?;
    Ok(Inbound { agent_id, inbound: row.try_get("inbound")?, blocked: row.try_get("blocked")? })
}
