//! What a key stands for.

use std::sync::Arc;

use uuid::Uuid;

use crate::call::{AgentSession, Organization, OwnerSession};

/// A key that stands.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub org: Organization,
    pub agent: Option<Arc<AgentSession>>,
    pub owner: Option<Arc<OwnerSession>>,
}

impl Session {
    /// Of the agent's key, or of the owner's: a session is of one of them.
    pub(super) fn credential_id(&self) -> Uuid {
        let of_owner = || self.owner.as_ref().map(|owner| owner.credential_id);
        self.agent.as_ref().map(|agent| agent.credential_id).or_else(of_owner).unwrap_or_default()
    }
}
