//! An owner blocks single senders of an agent, and lets them in again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use super::guard;
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};

/// Block a sender: one of your agents takes no more mail from it, replies included.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BlockAdd {
    /// Your agent.
    agent_id: Uuid,
    /// The sender to block.
    sender_agent_id: Uuid,
}

/// Let a blocked sender write to one of your agents again.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BlockRemove {
    /// Your agent.
    agent_id: Uuid,
    /// The sender to let in.
    sender_agent_id: Uuid,
}

/// Whether a sender is blocked now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Block {
    /// Your agent.
    agent_id: Uuid,
    /// The sender.
    sender_agent_id: Uuid,
    /// Whether it is blocked now.
    blocked: bool,
}

const PATH: &str = "/api/v1/agents/{agent_id}/blocks/{sender_agent_id}";

impl Tool for BlockAdd {
    type Answer = Block;
    const SPEC: Spec = Spec {
        name: "block_add",
        title: "Block a sender",
        access: Access::Owner,
        effect: Effect::Transaction,
        hints: Hints::SETS,
        reach: Reach::Routes,
        routes: &[Route::put(PATH)],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Block> {
        guard::lock(call, self.agent_id).await?;
        let org_id = call.caller.org.org_id;
        let db = call.db.get().await?;
        if !block(db, org_id, self.agent_id, self.sender_agent_id).await? {
            return Err(Error::NotFound("agent to block"));
        }
        guard::note(db, org_id, self.agent_id).await?;
        Ok(Block { agent_id: self.agent_id, sender_agent_id: self.sender_agent_id, blocked: true })
    }
}

impl Tool for BlockRemove {
    type Answer = Block;
    const SPEC: Spec = Spec {
        name: "block_remove",
        title: "Let a blocked sender in again",
        access: Access::Owner,
        effect: Effect::Transaction,
        hints: Hints::SETS,
        reach: Reach::Routes,
        routes: &[Route::delete(PATH)],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Block> {
        guard::lock(call, self.agent_id).await?;
        let org_id = call.caller.org.org_id;
        let db = call.db.get().await?;
        sqlx::query(
            "-- mailbox.unblock
             delete from inbound_block where org_id = $1 and agent_id = $2 and sender_agent_id = $3",
        )
        .bind(org_id)
        .bind(self.agent_id)
        .bind(self.sender_agent_id)
        .execute(&mut *db)
        .await?;
        guard::note(db, org_id, self.agent_id).await?;
        Ok(Block { agent_id: self.agent_id, sender_agent_id: self.sender_agent_id, blocked: false })
    }
}

/// Blocks a sender; false when there is no such agent in this organization.
async fn block(db: &mut PgConnection, org_id: Uuid, agent_id: Uuid, sender: Uuid) -> Result<bool> {
    let blocked = sqlx::query_scalar(
        "-- mailbox.block
         with sender as (select agent_id from agent where org_id = $1 and agent_id = $3),
         blocked as (
            insert into inbound_block (org_id, agent_id, sender_agent_id)
            select $1, $2, sender.agent_id from sender on conflict do nothing)
         select exists (select from sender)",
    )
    .bind(org_id)
    .bind(agent_id)
    .bind(sender)
    .fetch_one(db)
    .await?;
    Ok(blocked)
}
