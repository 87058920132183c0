//! `renew_agent_key`: a fresh key for an agent; its old ones stop working.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use super::owned::{lock_owned, mint_agent_key, revoke_keys};
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::wakes::Topic;

/// Replace an agent's keys by one fresh key, shown once. Its id, mailbox and name stay.
///
/// Use it for a lost api_key: never register again over an identity you have. Every older key of the agent
/// stops working within a second.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RenewAgentKey {
    /// Which of your agents; without it your oldest.
    #[schemars(length(max = 64))]
    agent_id: Option<String>,
}

/// A fresh key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Renewed {
    /// The agent.
    agent_id: Uuid,
    /// Its only key now. Keep it: it is not shown again.
    api_key: String,
    /// How many keys stopped working.
    revoked: usize,
}

impl Tool for RenewAgentKey {
    type Answer = Renewed;
    const SPEC: Spec = Spec {
        name: "renew_agent_key",
        title: "Renew an agent's key",
        access: Access::Owner,
        effect: Effect::Transaction,
        hints: Hints::ENDS,
        reach: Reach::Everywhere,
        routes: &[Route::post("/api/v1/api-keys").creating()],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Renewed> {
        let (org_id, owner_id) = (call.caller.org.org_id, call.caller.owner()?.owner_id);
        let agent_id = match &self.agent_id {
            // The one spelling that other tools take.
            Some(text) if text.len() == 36 => text.parse().map_err(|_| not_an_id())?,
            Some(_) => return Err(not_an_id()),
            None => oldest(call.db.get().await?, org_id, owner_id).await?.ok_or(Error::NotFound("agent"))?,
        };
        lock_owned(call, agent_id).await?;
        let revoked = revoke_keys(call.db.get().await?, org_id, agent_id, None).await?;
        let (_, secret) = mint_agent_key(call.db.get().await?, org_id, owner_id, agent_id).await?;
        for credential_id in &revoked {
            call.ring(Topic::Credential(*credential_id), 1);
        }
        Ok(Renewed { agent_id, api_key: secret.expose().to_owned(), revoked: revoked.len() })
    }
}

fn not_an_id() -> Error {
    Error::invalid("agent_id", "must be a UUID")
}

async fn oldest(db: &mut PgConnection, org_id: Uuid, owner_id: Uuid) -> Result<Option<Uuid>> {
    let agent_id = sqlx::query_scalar(
        "-- mailbox.oldest_agent
         select agent_id from agent where org_id = $1 and owner_id = $2 order by created_at, agent_id limit 1",
    )
    .bind(org_id)
    .bind(owner_id)
    .fetch_optional(db)
    .await?;
    Ok(agent_id)
}
