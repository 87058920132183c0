//! What the mailbox toolset tidies up, on whichever pod holds the chores.

use sqlx::PgConnection;

use crate::call::Result;

/// Most rows that one statement removes, so that no lock is held for long.
const BATCH: i64 = 1_000;

/// Removes agents that were registered over 24 hours ago and never polled, with their
/// mailboxes, keys and the messages that waited there.
pub async fn remove_unpolled_agents(db: &mut PgConnection) -> Result<u64> {
    let removed = sqlx::query(
        "-- mailbox.remove_unpolled_agents
         with gone as (
            select a.org_id, a.agent_id from agent a
            where a.created_at < clock_timestamp() - interval '24 hours'
              and not exists (select from poll p where p.org_id = a.org_id and p.agent_id = a.agent_id)
            order by a.created_at limit $1 for update skip locked
         ), letters as (
            select e.org_id, e.message_id from inbox_entry e join gone using (org_id, agent_id)
         ), emptied as (
            delete from inbox_entry e using gone where e.org_id = gone.org_id and e.agent_id = gone.agent_id
         ), unread as (
            delete from message m using letters where m.org_id = letters.org_id and m.message_id = letters.message_id
         )
         delete from agent a using gone where a.org_id = gone.org_id and a.agent_id = gone.agent_id",
    )
    .bind(BATCH)
    .execute(db)
    .await?;
    Ok(removed.rows_affected())
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

/// Forgets runs whose lease ended a day ago: nobody is served them again.
pub async fn forget_ended_runs(db: &mut PgConnection) -> Result<u64> {
    let removed = sqlx::query(
        "-- mailbox.forget_ended_runs
         delete from claim_run where ctid = any(array(
            select ctid from claim_run where lease_until < clock_timestamp() - interval '1 day' limit $1))",
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
