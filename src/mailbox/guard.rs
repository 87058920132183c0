//! What keeps senders out of a mailbox is changed under its lock, and noted in its row: posting, which holds
//! the same lock, looks nothing up for a mailbox that is open to all.

use sqlx::PgConnection;
use uuid::Uuid;

use super::owned::check_owned;
use crate::call::{Call, Error, Result};

/// Locks the mailbox of one of the calling owner's agents, until the transaction ends. It is the first lock in the
/// order of `inbox/post.rs`: the row of the agent may be changed behind it, not the other way round.
///
/// # Errors
/// `forbidden` for another owner's agent of the same organization; `not_found` for any
/// other id, of this organization or not.
pub(super) async fn lock(call: &mut Call<'_>, agent_id: Uuid) -> Result<()> {
    check_owned(call, agent_id).await?;
    let locked = sqlx::query(
        "-- mailbox.lock_guarded
         select from mailbox where org_id = $1 and agent_id = $2 for no key update",
    )
    .bind(call.caller.org.org_id)
    .bind(agent_id)
    .fetch_optional(call.db.get().await?)
    .await?;
    locked.map(|_| ()).ok_or(Error::NotFound("agent"))
}

/// Notes whether a policy or a block keeps anybody out by now.
pub(super) async fn note(db: &mut PgConnection, org_id: Uuid, agent_id: Uuid) -> Result<()> {
    sqlx::query(
        "-- mailbox.note_guarded
         update mailbox m set guarded = a.inbound <> 'open' or exists (
            select from inbound_block b where b.org_id = a.org_id and b.agent_id = a.agent_id)
         from agent a
         where m.org_id = $1 and m.agent_id = $2 and a.org_id = $1 and a.agent_id = $2",
    )
    .bind(org_id)
    .bind(agent_id)
    .execute(db)
    .await?;
    Ok(())
}
