//! What belongs to whom: an owner's agents, an agent's keys.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::call::credential::{Kind, Secret};
use crate::call::{Call, Error, Result};

/// Checks that the calling owner owns the agent.
///
/// # Errors
/// `forbidden` for another owner's agent of the same organization; `not_found` for any
/// other id, of this organization or not.
pub(super) async fn check_owned(call: &mut Call<'_>, agent_id: Uuid) -> Result<()> {
    let owner = sqlx::query_scalar(
        "-- mailbox.check_owned
         select owner_id from agent where org_id = $1 and agent_id = $2",
    )
    .bind(call.caller.org.org_id)
    .bind(agent_id)
    .fetch_optional(call.db.get().await?)
    .await?;
    judge_owner(call, owner)
}

/// Checks as [`check_owned`] does, and locks the agent's row until the transaction ends, so that
/// two changes to one agent come one after the other. The row is the last lock in the order of
/// `inbox/post.rs`: who holds it must not post.
pub(super) async fn lock_owned(call: &mut Call<'_>, agent_id: Uuid) -> Result<()> {
    let owner = sqlx::query_scalar(
        "-- mailbox.lock_owned
         select owner_id from agent where org_id = $1 and agent_id = $2 for no key update",
    )
    .bind(call.caller.org.org_id)
    .bind(agent_id)
    .fetch_optional(call.db.get().await?)
    .await?;
    judge_owner(call, owner)
}

fn judge_owner(call: &Call<'_>, owner: Option<Uuid>) -> Result<()> {
    match owner {
        None => Err(Error::NotFound("agent")),
        Some(owner_id) if owner_id == call.caller.owner()?.owner_id => Ok(()),
        Some(_) => Err(Error::Forbidden("This agent belongs to another owner. Use that owner's key.")),
    }
}

/// Makes a key of an agent. Only its hash is stored: the text is shown once, by the caller.
pub async fn mint_agent_key(
    db: &mut PgConnection,
    org_id: Uuid,
    owner_id: Uuid,
    agent_id: Uuid,
) -> Result<(Uuid, Secret)> {
    let (credential_id, secret) = (Uuid::now_v7(), Secret::mint(Kind::Agent));
    store_key(db, org_id, credential_id, &secret, "agent", owner_id, Some(agent_id)).await?;
    Ok((credential_id, secret))
}

/// Makes a key of an owner.
pub(super) async fn mint_owner_key(db: &mut PgConnection, org_id: Uuid, owner_id: Uuid) -> Result<Secret> {
    let secret = Secret::mint(Kind::Owner);
    store_key(db, org_id, Uuid::now_v7(), &secret, "owner", owner_id, None).await?;
    Ok(secret)
}

async fn store_key(
    db: &mut PgConnection,
    org_id: Uuid,
    credential_id: Uuid,
    secret: &Secret,
    kind: &'static str,
    owner_id: Uuid,
    agent_id: Option<Uuid>,
) -> Result<()> {
    sqlx::query(
        "-- mailbox.store_key
         insert into credential (key_hash, org_id, credential_id, kind, owner_id, agent_id, shown_prefix)
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(secret.hash().to_vec())
    .bind(org_id)
    .bind(credential_id)
    .bind(kind)
    .bind(owner_id)
    .bind(agent_id)
    .bind(secret.shown_prefix())
    .execute(db)
    .await?;
    Ok(())
}

/// Revokes keys of an agent that still stand: all of them, or the one named. Gives back
/// which, for their sessions to be ended.
pub async fn revoke_keys(
    db: &mut PgConnection,
    org_id: Uuid,
    agent_id: Uuid,
    only: Option<Uuid>,
) -> Result<Vec<Uuid>> {
    let revoked = sqlx::query_scalar(
        "-- mailbox.revoke_keys
         update credential set revoked_at = clock_timestamp()
         where org_id = $1 and agent_id = $2 and revoked_at is null and ($3::uuid is null or credential_id = $3)
         returning credential_id",
    )
    .bind(org_id)
    .bind(agent_id)
    .bind(only)
    .fetch_all(db)
    .await?;
    Ok(revoked)
}
