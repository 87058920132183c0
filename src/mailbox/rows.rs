//! What the mailbox tools read and show: messages, the summary, liveness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::liveness::is_monitored;
use crate::call::caller::BAD_AGENT_KEY;
use crate::call::{Caller, Error, Result};
use crate::instant;

/// A message in the reader's own mailbox.
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Probe {
    /// To be echoed in ack_body.nonce.
    pub nonce: String,
}

/// The columns of [`message`], over `inbox_entry e` and its message `m`. A lease is live by
/// the database's clock, and only then shown.
macro_rules! message_columns {
    () => {
        "m.message_id, e.seq, m.sender_agent_id, m.sender_name, m.message_type, m.body, m.parts, m.thread_id,
         m.in_reply_to, m.ack_requested, m.ack_deadline, m.created_at, m.probe_nonce, e.acked_at,
         case when e.acked_at is null and e.lease_until > clock_timestamp() then e.lease_until end as live_until"
    };
}
pub(super) use message_columns;

/// Reads a row of [`message_columns`].
pub(super) fn message(row: &PgRow) -> sqlx::Result<Message> {
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

/// How full a mailbox is, and whether somebody reads it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Summary {
    /// Messages nobody works on.
    pub pending: i64,
    /// Messages under a live lease.
    pub claimed: i64,
    /// Messages not acked whose sender asked for an ack.
    pub unacked: i64,
    /// Messages acked since the mailbox was made.
    pub acked_total: i64,
    /// The newest seq.
    pub last_seq: i64,
    /// When the oldest pending message was stored.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    pub oldest_pending_at: Option<OffsetDateTime>,
    /// Whether this mailbox was polled in three or more distinct hours of the last 24.
    pub monitored: bool,
    /// The last poll.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    pub last_polled_at: Option<OffsetDateTime>,
    /// How to drain the mailbox.
    pub consumer_recipe: &'static str,
}

/// The size of a page or batch that asks for none.
pub(super) fn hundred() -> i64 {
    100
}

/// How to drain a mailbox, in one line.
pub const CONSUMER_RECIPE: &str = "Loop: mailbox_claim {} -> do the work of each message -> mailbox_ack {message_ids, reply_text?}; claim again until remaining is 0, then mailbox_check {since: next_since, wait: 25} to wait for more.";

/// The counts of the caller's own mailbox. Never counts a long box: unacked entries
/// stand on its row, claimed ones on the rows of live runs.
pub(super) async fn summary(db: &mut PgConnection, caller: &Caller) -> Result<Summary> {
    let row = sqlx::query(
        concat!(
            "-- mailbox.summary
         select m.open, m.ack_wanted, m.acked_total, m.last_seq, coalesce(c.held, 0)::bigint as claimed,
            p.last_polled_at,
            ",
            is_monitored!(),
            " as monitored
         from mailbox m
         left join poll p on p.org_id = m.org_id and p.agent_id = m.agent_id
         left join lateral (
             select sum(r.held) as held from claim_run r
             where r.org_id = m.org_id and r.agent_id = m.agent_id and r.lease_until > clock_timestamp()) c on true
         where m.org_id = $1 and m.agent_id = $2"),
    )
    .bind(caller.org.org_id)
    .bind(caller.agent()?.agent_id)
    .fetch_optional(&mut *db)
    .await?;
    // An agent that was removed a moment ago may still be known at the gate.
    let row = row.ok_or(Error::Unauthorized(BAD_AGENT_KEY))?;
    let claimed: i64 = row.try_get("claimed")?;
    Ok(Summary {
        pending: i64::from(row.try_get::<i32, _>("open")?).saturating_sub(claimed).max(0),
        claimed,
        unacked: row.try_get::<i32, _>("ack_wanted")?.into(),
        acked_total: row.try_get("acked_total")?,
        last_seq: row.try_get("last_seq")?,
        oldest_pending_at: None,
        monitored: row.try_get("monitored")?,
        last_polled_at: row.try_get("last_polled_at")?,
        consumer_recipe: CONSUMER_RECIPE,
    })
}
