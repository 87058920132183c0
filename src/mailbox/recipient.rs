//! Finding the agent that mail is for.

use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::liveness::is_monitored;
use super::names;
use crate::call::{Call, Error, Result};
use crate::error::Candidate;

/// How a sender names the recipient.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// By id.
    Id(Uuid),
    /// By name: one byte-exact match wins, else whoever folds alike.
    Name(&'a str),
}

/// Candidates shown for a name that several agents share.
const CANDIDATES: i64 = 5;

/// Finds the recipient of the caller's mail. An id is taken as it is: posting tells whether its
/// mailbox exists.
///
/// # Errors
/// `not_found`; `recipient_ambiguous` with at most five candidates.
pub(super) async fn find(call: &mut Call<'_>, wanted: Wanted<'_>) -> Result<Uuid> {
    match wanted {
        Wanted::Id(agent_id) => Ok(agent_id),
        // What nobody may be called, a key above all, is not even asked for: statements can be logged.
        Wanted::Name(name) if names::judge(name).is_err() => Err(Error::NotFound("recipient")),
        Wanted::Name(name) => find_by_name(call.db.get().await?, call.caller.org.org_id, name).await,
    }
}

async fn find_by_name(db: &mut PgConnection, org_id: Uuid, name: &str) -> Result<Uuid> {
    let folded = names::fold(name);
    if let [agent_id] = exact(db, org_id, name, &folded).await?[..] {
        return Ok(agent_id);
    }
    let candidates = alike(db, org_id, &folded).await?;
    match candidates.as_slice() {
        [] => Err(Error::NotFound("recipient")),
        [one] => Ok(one.agent_id),
        _ => Err(Error::RecipientAmbiguous { candidates }),
    }
}

/// Agents of exactly this name: two tell as much as more. Looked for by itself, so that no crowd of
/// lookalikes can hide the one that is meant.
async fn exact(db: &mut PgConnection, org_id: Uuid, name: &str, folded: &str) -> Result<Vec<Uuid>> {
    let agents = sqlx::query_scalar(
        "-- mailbox.exact_name
         select agent_id from agent where org_id = $1 and name_folded = $2 and name = $3 limit 2",
    )
    .bind(org_id)
    .bind(folded)
    .bind(name)
    .fetch_all(db)
    .await?;
    Ok(agents)
}

/// Some agents whose names fold alike, live first: verified, then monitored, then the most
/// recent poll.
async fn alike(db: &mut PgConnection, org_id: Uuid, folded: &str) -> Result<Vec<Candidate>> {
    let rows = sqlx::query(concat!(
        "-- mailbox.alike
         select a.agent_id, a.name, a.verified_at is not null as verified, p.last_polled_at,
            ",
        is_monitored!(),
        " as monitored
         from agent a left join poll p using (org_id, agent_id)
         where a.org_id = $1 and a.name_folded = $2
         order by verified desc, monitored desc, p.last_polled_at desc nulls last, a.agent_id limit $3"
    ))
    .bind(org_id)
    .bind(folded)
    .bind(CANDIDATES)
    .fetch_all(db)
    .await?;
    let read = |row: &sqlx::postgres::PgRow| -> sqlx::Result<Candidate> {
        Ok(Candidate {
            agent_id: row.try_get("agent_id")?,
            agent_name: row.try_get("name")?,
            verified: row.try_get("verified")?,
            monitored: row.try_get("monitored")?,
            last_polled_at: row.try_get::<Option<OffsetDateTime>, _>("last_polled_at")?,
        })
    };
    Ok(rows.iter().map(read).collect::<sqlx::Result<_>>()?)
}
