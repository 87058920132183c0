//! Whether somebody reads a mailbox: polls, and in how many hours of the last 24 there were any.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::call::caller::NO_AGENT_KEY;
use crate::call::{Caller, Error, Result};
use crate::error::Liveness;

/// Whether `poll p` shows polls in three or more distinct hours of the last 24, as SQL; false without a row.
macro_rules! is_monitored {
    () => {
        "coalesce(bit_count(p.hours >> least(24,
            extract(epoch from clock_timestamp())::bigint / 3600 - p.polled_hour)::int) >= 3, false)"
    };
}
pub(super) use is_monitored;

/// Stamps one poll: the agent is alive, and from its first poll on permanent.
///
/// When another call of the same agent is stamping right now, that stamp serves for both:
/// claims of one mailbox must not wait for each other's commits here.
pub(super) async fn stamp_poll(db: &mut PgConnection, caller: &Caller) -> Result<()> {
    sqlx::query(
        "-- mailbox.stamp_poll
         with clock as (
            select clock_timestamp() as now, extract(epoch from clock_timestamp())::bigint / 3600 as hour
         ), free as (
            select org_id, agent_id from poll where org_id = $1 and agent_id = $2 for no key update skip locked
         ), moved as (
            update poll p set
                last_polled_at = greatest(p.last_polled_at, clock.now),
                polled_hour = greatest(p.polled_hour, clock.hour),
                hours = (p.hours >> greatest(0, least(24, clock.hour - p.polled_hour))::int) | b'1'::bit(24)
            from free, clock where p.org_id = free.org_id and p.agent_id = free.agent_id
         )
         insert into poll (org_id, agent_id, first_polled_at, last_polled_at, polled_hour, hours)
         select $1, $2, clock.now, clock.now, clock.hour, b'1'::bit(24) from clock
         where not exists (select from poll where org_id = $1 and agent_id = $2)
           and exists (select from agent where org_id = $1 and agent_id = $2)
         on conflict do nothing",
    )
    .bind(caller.org.org_id)
    .bind(caller.agent()?.agent_id)
    .execute(db)
    .await
    .map_err(refused)?;
    Ok(())
}

/// A first poll that met the removal of its agent: its key is gone.
fn refused(error: sqlx::Error) -> Error {
    match &error {
        sqlx::Error::Database(cause) if cause.is_foreign_key_violation() => Error::Unauthorized(NO_AGENT_KEY),
        _ => error.into(),
    }
}

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
