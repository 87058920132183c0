//! What the mailbox toolset tidies up, on whichever pod holds the chores.

use sqlx::PgConnection;

use crate::call::Result;

mod unpolled;
pub use unpolled::remove_unpolled_agents;

/// Most rows that one statement removes, so that no lock is held for long.
const BATCH: i64 = 1_000;

/// Ends the trial of agents that polled: from now on the chores pass them by.
pub async fn keep_polled_agents(db: &mut PgConnection) -> Result<u64> {
    let kept = sqlx::query(
        "-- mailbox.keep_polled_agents
         with polled as (
            select a.org_id, a.agent_id from agent a
            where a.on_trial and a.created_at < clock_timestamp() - interval '24 hours'
              and exists (select from poll p where p.org_id = a.org_id and p.agent_id = a.agent_id)
            order by a.created_at limit $1 for no key update of a skip locked
         )
         update agent a set on_trial = false from polled
         where a.org_id = polled.org_id and a.agent_id = polled.agent_id",
    )
    .bind(BATCH)
    .execute(db)
    .await?;
    Ok(kept.rows_affected())
}

/// Forgets keys of retries after 30 days: far longer than any client retries.
///
/// By the statement's own time, since no index finds what is older than a clock that goes on.
pub async fn forget_idempotency_keys(db: &mut PgConnection) -> Result<u64> {
    let removed = sqlx::query(
        "-- mailbox.forget_idempotency_keys
         delete from idempotency where ctid = any(array(
            select ctid from idempotency where created_at < statement_timestamp() - interval '30 days' limit $1))",
    )
    .bind(BATCH)
    .execute(db)
    .await?;
    Ok(removed.rows_affected())
}

/// Forgets runs whose lease ended a day ago, in mailboxes where no claim has cleared them away.
pub async fn forget_ended_runs(db: &mut PgConnection) -> Result<u64> {
    let removed = sqlx::query(
        "-- mailbox.forget_ended_runs
         delete from claim_run where ctid = any(array(
            select ctid from claim_run where lease_until < clock_timestamp() - interval '1 day' limit $1
            for update skip locked))",
    )
    .bind(BATCH)
    .execute(db)
    .await?;
    Ok(removed.rows_affected())
}

/// Forgets registrations after a day: the limit looks back one hour.
pub async fn forget_registrations(db: &mut PgConnection) -> Result<u64> {
    let removed = sqlx::query(
        "-- mailbox.forget_registrations
         delete from registration where ctid = any(array(
            select ctid from registration where registered_at < clock_timestamp() - interval '1 day' limit $1))",
    )
    .bind(BATCH)
    .execute(db)
    .await?;
    Ok(removed.rows_affected())
}
