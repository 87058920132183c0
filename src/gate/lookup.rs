//! Finds sessions by the hash of their key, and organizations by their name.

use std::sync::Arc;

use moka::sync::Cache;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgPool, Row};
use tokio::time::Instant;
use uuid::Uuid;

use super::remembered::{KNOWN, Known, MOST, REMEMBER, Remembered};
use super::session::Session;
use crate::call::ticket::{Holder, Tickets};
use crate::call::turns::Turns;
use crate::call::{AgentSession, Organization, OwnerSession, Result};
use crate::postgres::pool;
use crate::wakes::Wakes;

pub(super) struct Lookup {
    pool: PgPool,
    turns: Turns,
    tickets: Tickets,
    sessions: Remembered,
    /// By name, with the moment before the database was asked.
    organizations: Cache<String, (Instant, Organization)>,
}

impl Lookup {
    pub(super) fn new(pool: PgPool, turns: Turns, wakes: Wakes, tickets: Tickets) -> Lookup {
        let organizations = Cache::builder().max_capacity(MOST).time_to_live(KNOWN).build();
        Lookup { pool, turns, tickets, sessions: Remembered::new(wakes), organizations }
    }

    /// What is remembered of a key that stood lately, by its hash.
    pub(super) fn remembered(&self, hash: &[u8; 32]) -> Option<Known> {
        self.sessions.get(hash)
    }

    /// Looks the session of a key's hash up. Only keys that stand are remembered.
    pub(super) async fn session(&self, hash: [u8; 32]) -> Result<Option<Session>> {
        let pool = self.pool.clone();
        let looking = async move {
            let asked_at = Instant::now();
            (asked_at, pool::idempotent(&pool, |db| Box::pin(find_session(db, hash))).await)
        };
        let (asked_at, found) = self.turns.take(looking).await?;
        let found = found?;
        match &found {
            Some(session) => self.sessions.put(hash, asked_at, session.clone()),
            None => self.sessions.forget(&hash),
        }
        Ok(found)
    }

    /// Whether there was an organization of that name lately, or there cannot be one: no look-up is lost on it.
    pub(super) fn existed(&self, slug: &str) -> bool {
        !Organization::is_slug(slug) || self.organizations.contains_key(slug)
    }

    /// The session that a ticket is of, if both stand. Not remembered: a stream is opened now and then.
    pub(super) async fn holder(&self, ticket: &str) -> Result<Option<Session>> {
        let Some(holder) = self.tickets.read(ticket) else { return Ok(None) };
        let pool = self.pool.clone();
        let looking = async move { pool::idempotent(&pool, |db| Box::pin(find_holder(db, holder))).await };
        Ok(self.turns.take(looking).await??)
    }

    /// The organization of that name.
    pub(super) async fn organization(&self, slug: &str) -> Result<Option<Organization>> {
        if !Organization::is_slug(slug) {
            return Ok(None);
        }
        if let Some((asked_at, organization)) = self.organizations.get(slug)
            && asked_at.elapsed() < REMEMBER
        {
            return Ok(Some(organization));
        }
        let (pool, name) = (self.pool.clone(), slug.to_owned());
        let looking = async move {
            let asked_at = Instant::now();
            (asked_at, pool::idempotent(&pool, |db| Box::pin(find_organization(db, name.clone()))).await)
        };
        let (asked_at, found) = self.turns.take(looking).await?;
        let found = found?;
        if let Some(organization) = &found {
            self.organizations.insert(slug.to_owned(), (asked_at, organization.clone()));
        }
        Ok(found)
    }
}

/// The columns of [`session`], of a credential `c`.
macro_rules! session_columns {
    () => {
        "c.org_id, o.slug, o.registration = 'open' as open, c.credential_id, c.owner_id, c.shown_prefix,
            c.agent_id, a.name
         from credential c join organization o using (org_id) left join agent a using (org_id, agent_id)"
    };
}

async fn find_session(db: &mut PgConnection, hash: [u8; 32]) -> sqlx::Result<Option<Session>> {
    let row = sqlx::query(concat!(
        "-- gate.find_session\n select ",
        session_columns!(),
        " where c.key_hash = $1 and c.revoked_at is null"
    ))
    .bind(hash.to_vec())
    .fetch_optional(db)
    .await?;
    row.as_ref().map(session).transpose()
}

async fn find_holder(db: &mut PgConnection, holder: Holder) -> sqlx::Result<Option<Session>> {
    let row = sqlx::query(concat!(
        "-- gate.find_holder\n select ",
        session_columns!(),
        " where c.org_id = $1 and c.credential_id = $2 and c.agent_id = $3 and c.revoked_at is null"
    ))
    .bind(holder.org_id)
    .bind(holder.credential_id)
    .bind(holder.agent_id)
    .fetch_optional(db)
    .await?;
    row.as_ref().map(session).transpose()
}

fn session(row: &PgRow) -> sqlx::Result<Session> {
    let slug: String = row.try_get("slug")?;
    let org = Organization { org_id: row.try_get("org_id")?, slug: slug.into(), open: row.try_get("open")? };
    let credential_id = row.try_get("credential_id")?;
    let owner_id = row.try_get("owner_id")?;
    let agent_id: Option<Uuid> = row.try_get("agent_id")?;
    Ok(match agent_id {
        Some(agent_id) => {
            let (agent_name, key_prefix) = (row.try_get("name")?, row.try_get("shown_prefix")?);
            let agent = AgentSession { credential_id, agent_id, agent_name, owner_id, key_prefix };
            Session { org, agent: Some(Arc::new(agent)), owner: None }
        }
        None => Session { org, agent: None, owner: Some(Arc::new(OwnerSession { credential_id, owner_id })) },
    })
}

async fn find_organization(db: &mut PgConnection, slug: String) -> sqlx::Result<Option<Organization>> {
    let row = sqlx::query(
        "-- gate.find_organization
         select org_id, slug, registration = 'open' as open from organization where slug = $1",
    )
    .bind(slug)
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let slug: String = row.try_get("slug")?;
    Ok(Some(Organization { org_id: row.try_get("org_id")?, slug: slug.into(), open: row.try_get("open")? }))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_client_that_hangs_up_before_its_turn_leaves_no_look_up_behind() {
        let pool = PgPool::connect_lazy("postgres://localhost/nothing").unwrap();
        let turns = Turns::new(0);
        let lookup = Lookup::new(pool, turns.clone(), Wakes::default(), Tickets::new(&[7; 32]));
        assert!(lookup.session([0; 32]).now_or_never().is_none());
        assert!(lookup.organization("acme").now_or_never().is_none());
        assert!(turns.tasks.is_empty());
    }
}
