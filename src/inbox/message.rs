//! A message as the agent sees it in whose mailbox it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::instant;

/// A message in the reader's own mailbox.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Message {
    /// Its id: pass it to mailbox_claim, mailbox_ack or in_reply_to.
    pub id: Uuid,
    /// Its place in this mailbox: strictly increasing, gaps allowed.
    pub seq: i64,
    /// agent = peer mail, system = a notice of this service. Branch on this, not on message_type.
    pub sender_type: SenderType,
    /// The peer that wrote it; null for notices.
    pub sender_agent_id: Option<Uuid>,
    /// The peer's name when it wrote.
    pub sender_name: String,
    /// direct, offer, agent_reply, system.
    pub message_type: String,
    /// The text.
    pub body: String,
    /// A2A parts, if it has any.
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub parts: Option<Vec<Value>>,
    /// The conversation it belongs to.
    pub thread_id: Option<Uuid>,
    /// The message it answers.
    pub in_reply_to: Option<Uuid>,
    /// The room it came by; null for direct mail.
    pub room_id: Option<Uuid>,
    /// Whether its sender asks for an ack.
    pub ack_requested: bool,
    /// Until when the sender waits for that ack.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    pub ack_deadline: Option<OffsetDateTime>,
    /// When it was stored.
    #[serde(with = "instant")]
    #[schemars(with = "String")]
    pub created_at: OffsetDateTime,
    /// pending = nobody works on it, claimed = under a live lease, acked = done for good.
    pub state: State,
    /// When the live lease ends; null unless claimed.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    pub lease_expires_at: Option<OffsetDateTime>,
    /// When it was acked.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    pub acked_at: Option<OffsetDateTime>,
    /// Set on probes: ack with ack_body {nonce, body_hash = hex SHA-256 of nonce followed by body}.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderType {
    /// A peer.
    Agent,
    /// This service.
    System,
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody works on it.
    Pending,
    /// Under a live lease.
    Claimed,
    /// Done for good.
    Acked,
}

/// What a probe asks to be proven.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Probe {
    /// To be echoed in ack_body.nonce.
    pub nonce: String,
}

/// The columns that [`read`] wants, over `inbox_entry e` and its message `m`. A lease is live by
/// the database's clock, and only then shown.
macro_rules! message_columns {
    () => {
        "m.message_id, e.seq, m.sender_agent_id, m.sender_name, m.message_type, m.body, m.parts, m.thread_id,
         m.in_reply_to, m.ack_requested, m.ack_deadline, m.created_at, m.probe_nonce, e.acked_at,
         case when e.acked_at is null and e.lease_until > clock_timestamp() then e.lease_until end as live_until"
    };
}
pub(crate) use message_columns;

/// Reads a row of [`message_columns`].
pub(crate) fn read(row: &PgRow) -> sqlx::Result<Message> {
    let sender_agent_id: Option<Uuid> = row.try_get("sender_agent_id")?;
    let acked_at: Option<OffsetDateTime> = row.try_get("acked_at")?;
    let lease_expires_at: Option<OffsetDateTime> = row.try_get("live_until")?;
    let parts: Option<Json<Vec<Value>>> = row.try_get("parts")?;
    let nonce: Option<String> = row.try_get("probe_nonce")?;
    Ok(Message {
        id: row.try_get("message_id")?,
        seq: row.try_get("seq")?,
        sender_type: if sender_agent_id.is_some() { SenderType::Agent } else { SenderType::System },
        sender_agent_id,
        sender_name: row.try_get("sender_name")?,
        message_type: row.try_get("message_type")?,
        body: row.try_get("body")?,
        parts: parts.map(|Json(parts)| parts),
        thread_id: row.try_get("thread_id")?,
        in_reply_to: row.try_get("in_reply_to")?,
        room_id: None,
        ack_requested: row.try_get("ack_requested")?,
        ack_deadline: row.try_get("ack_deadline")?,
        created_at: row.try_get("created_at")?,
        state: match (acked_at, lease_expires_at) {
            (Some(_), _) => State::Acked,
            (None, Some(_)) => State::Claimed,
            (None, None) => State::Pending,
        },
        lease_expires_at,
        acked_at,
        probe: nonce.map(|nonce| Probe { nonce }),
    })
}
