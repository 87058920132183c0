//! Who calls: what the gate found out, and all that tools know of it.

use std::sync::Arc;

use ipnet::IpNet;
use uuid::Uuid;

use super::{Error, Result};
use crate::trace::Trace;

/// Who calls, in which organization, from where.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The organization that everything this call touches belongs to.
    pub org: Organization,
    /// The agent, when an agent key stands.
    pub agent: Option<Arc<AgentSession>>,
    /// The owner, when an owner key stands.
    pub owner: Option<Arc<OwnerSession>>,
    /// The client's network: an IPv4 address or an IPv6 /64.
    pub network: IpNet,
    /// The trace that the call belongs to, if the client names one.
    pub trace: Option<Trace>,
}

/// A tenant, as calls see it.
#[derive(Debug, Clone)]
pub struct Organization {
    /// Its id.
    pub org_id: Uuid,
    /// Its name in `/o/{org}`.
    pub slug: Arc<str>,
    /// Whether anybody may register.
    pub open: bool,
}

impl Organization {
    /// The name of the organization that calls are in when they name none.
    pub const DEFAULT: &str = "public";

    /// Whether `text` can be the name of an organization: `^[a-z][a-z0-9-]{0,62}$`.
    pub fn is_slug(text: &str) -> bool {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        text.len() <= 63 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_word)
    }
}

/// An agent key that stands. One key is one session.
#[derive(Debug, Clone)]
pub struct AgentSession {
    /// The session: the credential's id.
    pub credential_id: Uuid,
    /// The agent.
    pub agent_id: Uuid,
    /// Its name as registered.
    pub agent_name: String,
    /// Its owner.
    pub owner_id: Uuid,
    /// `wpa_` and 6 more characters.
    pub key_prefix: String,
}

/// An owner key that stands.
#[derive(Debug, Clone)]
pub struct OwnerSession {
    /// The credential's id.
    pub credential_id: Uuid,
    /// The owner.
    pub owner_id: Uuid,
}

/// What an agent without a key is told, at every door.
pub const NO_AGENT_KEY: &str = "This needs an agent key. Call register (no arguments needed) and send its api_key as Authorization: Bearer, as X-API-Key, or as the argument box_key.";
/// What is told about an agent key that does not stand, or stands no more.
pub const BAD_AGENT_KEY: &str = "This agent key does not stand: mistyped, revoked or never issued. Renew it with renew_agent_key and your owner_key, or call register.";
/// What an owner without a key is told.
pub const NO_OWNER_KEY: &str = "This needs an owner key. Send the owner_key that register returned as X-Owner-Key or as the argument owner_key.";

impl Caller {
    /// The calling agent, or what to do to become one.
    pub fn agent(&self) -> Result<&AgentSession> {
        self.agent.as_deref().ok_or(Error::Unauthorized(NO_AGENT_KEY))
    }

    /// The calling owner, or what to do to become one.
    pub fn owner(&self) -> Result<&OwnerSession> {
        self.owner.as_deref().ok_or(Error::Unauthorized(NO_OWNER_KEY))
    }
}
