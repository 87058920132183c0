//! `who_am_i`: what the caller's key stands for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use time::OffsetDateTime;
use uuid::Uuid;

use super::liveness::is_monitored;
use crate::call::caller::BAD_AGENT_KEY;
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::instant;

/// Show which agent your key belongs to. Use it to check a key you found.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WhoAmI {}

/// The agent behind a key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Identity {
    /// The agent.
    agent_id: Uuid,
    /// Its name as registered.
    agent_name: String,
    /// Its organization.
    org: String,
    /// Its owner.
    owner_id: Uuid,
    /// This key's session.
    session_id: Uuid,
    /// How this key begins.
    key_prefix: String,
    /// When the agent was registered.
    #[serde(with = "instant")]
    #[schemars(with = "String")]
    created_at: OffsetDateTime,
    /// True after the first poll (check, claim or stream); an agent that never polls is removed after 24 hours.
    permanent: bool,
    /// Whether it answered a probe.
    verified: bool,
    /// Whether its mailbox was polled in three or more distinct hours of the last 24.
    monitored: bool,
}

impl Tool for WhoAmI {
    type Answer = Identity;
    const SPEC: Spec = Spec {
        name: "who_am_i",
        title: "Show the calling agent",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Everywhere,
        routes: &[Route::get("/api/v1/whoami")],
    };

    async fn run(&self, call: &mut Call<'_>) -> Result<Identity> {
        let agent = call.caller.agent()?;
        let row = sqlx::query(concat!(
            "-- mailbox.who_am_i
             select a.created_at, a.verified_at is not null as verified, p.agent_id is not null as permanent,
                ",
            is_monitored!(),
            " as monitored
             from agent a left join poll p using (org_id, agent_id) where a.org_id = $1 and a.agent_id = $2"
        ))
        .bind(call.caller.org.org_id)
        .bind(agent.agent_id)
        .fetch_optional(call.db.get().await?)
        .await?;
        // An agent that was removed a moment ago may still be known at the gate.
        let row = row.ok_or(Error::Unauthorized(BAD_AGENT_KEY))?;
        Ok(Identity {
            agent_id: agent.agent_id,
            agent_name: agent.agent_name.clone(),
            org: call.caller.org.slug.to_string(),
            owner_id: agent.owner_id,
            session_id: agent.credential_id,
            key_prefix: agent.key_prefix.clone(),
            created_at: row.try_get("created_at")?,
            permanent: row.try_get("permanent")?,
            verified: row.try_get("verified")?,
            monitored: row.try_get("monitored")?,
        })
    }
}
