//! An owner adds a key to an agent (a further session) and revokes single keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::owned::{lock_owned, mint_agent_key, revoke_keys};
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::wakes::Topic;

/// Add a key to one of your agents: a further session beside the ones it has.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AgentKeyAdd {
    /// The agent.
    agent_id: Uuid,
}

/// A new key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyAdded {
    /// The key's id, to revoke it: the session's id.
    key_id: Uuid,
    /// The key. Keep it: it is not shown again.
    api_key: String,
}

impl Tool for AgentKeyAdd {
    type Answer = KeyAdded;
    const SPEC: Spec = Spec {
        name: "agent_key_add",
        title: "Add a key to an agent",
        access: Access::Owner,
        effect: Effect::Transaction,
        hints: Hints::ADDS,
        reach: Reach::Routes,
        routes: &[Route::post("/api/v1/agents/{agent_id}/keys").creating()],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<KeyAdded> {
        lock_owned(call, self.agent_id).await?;
        let (org_id, owner_id) = (call.caller.org.org_id, call.caller.owner()?.owner_id);
        let (key_id, secret) = mint_agent_key(call.db.get().await?, org_id, owner_id, self.agent_id).await?;
        Ok(KeyAdded { key_id, api_key: secret.expose().to_owned() })
    }
}

/// Revoke one key of one of your agents: refused everywhere within a second.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AgentKeyRevoke {
    /// The agent.
    agent_id: Uuid,
    /// The key's id, as the key's making or the list of agents shows it.
    key_id: Uuid,
}

/// A key that no longer works.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyRevoked {
    /// The key's id.
    key_id: Uuid,
    /// Always true.
    revoked: bool,
}

impl Tool for AgentKeyRevoke {
    type Answer = KeyRevoked;
    const SPEC: Spec = Spec {
        name: "agent_key_revoke",
        title: "Revoke a key of an agent",
        access: Access::Owner,
        effect: Effect::Transaction,
        hints: Hints::ENDS,
        reach: Reach::Routes,
        routes: &[Route::delete("/api/v1/agents/{agent_id}/keys/{key_id}")],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<KeyRevoked> {
        lock_owned(call, self.agent_id).await?;
        let revoked =
            revoke_keys(call.db.get().await?, call.caller.org.org_id, self.agent_id, Some(self.key_id))
                .await?;
        match revoked.is_empty() {
            true => Err(Error::NotFound("key that still works")),
            false => {
                call.ring(Topic::Credential(self.key_id), 1);
                Ok(KeyRevoked { key_id: self.key_id, revoked: true })
            }
        }
    }
}
