//! Whether somebody reads a mailbox: polls, and in how many hours of the last 24 there were any.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::call::Result;
use crate::error::Liveness;

/// Whether `poll p` shows polls in three or more distinct hours of the last 24, as SQL; false without a row.
macro_rules! is_monitored {
    () => {
        "coalesce(bit_count(p.hours >> least(24,
            extract(epoch from clock_timestamp())::bigint / 3600 - p.polled_hour)::int) >= 3, false)"
    };
}
pub(super) use is_monitored;

/// Whether somebody reads another agent's mailbox, for senders that find it full.
pub(super) async fn liveness_of(db: &mut PgConnection, org_id: Uuid, agent_id: Uuid) -> Result<Liveness> {
    let row = sqlx::query(
        concat!(
            "-- mailbox.liveness
         select p.last_polled_at, extract(epoch from clock_timestamp() - p.last_polled_at)::bigint / 60 as minutes_ago,
            ",
            is_monitored!(),
            " as monitored
         from poll p where p.org_id = $1 and p.agent_id = $2"),
    )
    .bind(org_id)
    .bind(agent_id)
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(Liveness::default()) };
    Ok(Liveness {
        monitored: row.try_get("monitored")?,
        last_polled_at: row.try_get("last_polled_at")?,
        minutes_ago: row.try_get("minutes_ago")?,
        is_unknown: false,
    })
}
