//! Removes agents that nobody uses, while senders, polls and owners may be at them.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::call::Result;

/// Most agents at once: their mailboxes are locked meanwhile.
const BATCH: i64 = 100;

/// Removes agents that were registered over 24 hours ago and never polled, with their
/// mailboxes, keys and the messages that waited there; and owners whose last agent that was,
/// with their keys. Tells how many agents.
///
/// It needs a transaction. Locks come in the order of `inbox/post.rs`, and each look is a
/// statement behind its lock: what was posted or polled until then is seen. A first poll refers
/// to the agent's row, so it is either seen here or refused there.
pub async fn remove_unpolled_agents(db: &mut PgConnection) -> Result<u64> {
    let mailboxes = lock_mailboxes(db).await?;
    if mailboxes.0.is_empty() {
        return Ok(0);
    }
    let agents = lock_agents(db, &mailboxes).await?;
    let owners = remove_agents(db, &agents).await?;
    let removed = owners.0.len() as u64;
    let owners = lock_owners(db, owners).await?;
    remove_owners(db, &owners).await?;
    Ok(removed)
}

/// Organizations, and beside each the id of one of its rows.
type Ids = (Vec<Uuid>, Vec<Uuid>);

async fn lock_mailboxes(db: &mut PgConnection) -> Result<Ids> {
    let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "-- mailbox.lock_unpolled_mailboxes
         select m.org_id, m.agent_id from mailbox m
         where (m.org_id, m.agent_id) in (
            select a.org_id, a.agent_id from agent a
            where a.on_trial and a.created_at < clock_timestamp() - interval '24 hours'
              and not exists (select from poll p where p.org_id = a.org_id and p.agent_id = a.agent_id)
            order by a.created_at limit $1)
         order by m.org_id, m.agent_id for no key update",
    )
    .bind(BATCH)
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().unzip())
}

/// Agents that somebody refers to or changes right now are left for the next round.
async fn lock_agents(db: &mut PgConnection, mailboxes: &Ids) -> Result<Ids> {
    let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "-- mailbox.lock_unpolled_agents
         select a.org_id, a.agent_id from agent a
         where (a.org_id, a.agent_id) in (select * from unnest($1::uuid[], $2::uuid[]))
         for update skip locked",
    )
    .bind(&mailboxes.0)
    .bind(&mailboxes.1)
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().unzip())
}

/// Removes those that still have not polled; gives the owner of each.
async fn remove_agents(db: &mut PgConnection, agents: &Ids) -> Result<Ids> {
    let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "-- mailbox.remove_unpolled_agents
         with gone as (
            select a.org_id, a.agent_id from agent a
            where (a.org_id, a.agent_id) in (select * from unnest($1::uuid[], $2::uuid[]))
              and not exists (select from poll p where p.org_id = a.org_id and p.agent_id = a.agent_id)
         ), unread as (
            delete from inbox_entry e using gone where e.org_id = gone.org_id and e.agent_id = gone.agent_id
            returning e.org_id, e.message_id
         ), letters as (
            delete from message m using unread where m.org_id = unread.org_id and m.message_id = unread.message_id
         ), keys as (
            delete from idempotency i using gone where i.org_id = gone.org_id and i.agent_id = gone.agent_id
         )
         delete from agent a using gone where a.org_id = gone.org_id and a.agent_id = gone.agent_id
         returning a.org_id, a.owner_id",
    )
    .bind(&agents.0)
    .bind(&agents.1)
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().unzip())
}

/// An owner that registers another agent right now is waited for.
async fn lock_owners(db: &mut PgConnection, owners: Ids) -> Result<Ids> {
    let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "-- mailbox.lock_owners
         select o.org_id, o.owner_id from owner o
         where (o.org_id, o.owner_id) in (select * from unnest($1::uuid[], $2::uuid[]))
         order by o.org_id, o.owner_id for update",
    )
    .bind(owners.0)
    .bind(owners.1)
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().unzip())
}

async fn remove_owners(db: &mut PgConnection, owners: &Ids) -> Result<()> {
    sqlx::query(
        "-- mailbox.remove_owners
         with gone as (
            select o.org_id, o.owner_id from unnest($1::uuid[], $2::uuid[]) as o(org_id, owner_id)
            where not exists (select from agent a where a.org_id = o.org_id and a.owner_id = o.owner_id)
         ), keys as (
            delete from credential c using gone where c.org_id = gone.org_id and c.owner_id = gone.owner_id
         )
         delete from owner o using gone where o.org_id = gone.org_id and o.owner_id = gone.owner_id",
    )
    .bind(&owners.0)
    .bind(&owners.1)
    .execute(db)
    .await?;
    Ok(())
}
