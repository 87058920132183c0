//! What the mailbox tools read and show: the summary, liveness.

use schemars::JsonSchema;
use serde::Serialize;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;

use super::liveness::is_monitored;
use crate::call::caller::BAD_AGENT_KEY;
use crate::call::{Caller, Error, Result};
use crate::instant;

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
