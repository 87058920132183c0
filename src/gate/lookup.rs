//! Finds sessions by the hash of their key, and remembers them for half a second.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use sqlx::{PgConnection, PgPool, Row};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::call::{AgentSession, Error, Organization, OwnerSession, Result};
use crate::postgres::pool;
use crate::wakes::Wakes;

/// A revoked key is refused everywhere within a second: at once where the news of it
/// arrives, and at the latest when what is remembered is this old.
const REMEMBER: Duration = Duration::from_millis(500);
/// Most sessions remembered.
const MOST: u64 = 100_000;

/// A key that stands.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub org: Organization,
    pub agent: Option<Arc<AgentSession>>,
    pub owner: Option<Arc<OwnerSession>>,
}

pub(super) struct Lookup {
    pool: PgPool,
    tasks: TaskTracker,
    wakes: Wakes,
    sessions: Cache<[u8; 32], (u64, Session)>,
    organizations: Cache<String, Organization>,
}

impl Lookup {
    pub(super) fn new(pool: PgPool, tasks: TaskTracker, wakes: Wakes) -> Lookup {
        let sessions = Cache::builder().max_capacity(MOST).time_to_live(REMEMBER).build();
        let organizations = Cache::builder().max_capacity(MOST).time_to_live(REMEMBER).build();
        Lookup { pool, tasks, wakes, sessions, organizations }
    }

    /// The session of a key's hash. Only keys that stand are remembered.
    ///
    /// The count of revocations is read before the database is: a key revoked in between
    /// is remembered under a count that has moved, and looked up again.
    pub(super) async fn session(&self, hash: [u8; 32]) -> Result<Option<Session>> {
        let revocations = self.wakes.revocations();
        if let Some((at, session)) = self.sessions.get(&hash)
            && at == revocations
        {
            return Ok(Some(session));
        }
        let pool = self.pool.clone();
        let found = self
            .tasks
            .spawn(async move { pool::read(&pool, |db| Box::pin(find_session(db, hash))).await })
            .await;
        let found = found.map_err(Error::internal)??;
        if let Some(session) = &found {
            self.sessions.insert(hash, (revocations, session.clone()));
        }
        Ok(found)
    }

    /// The organization of that name.
    pub(super) async fn organization(&self, slug: &str) -> Result<Option<Organization>> {
        if !Organization::is_slug(slug) {
            return Ok(None);
        }
        if let Some(organization) = self.organizations.get(slug) {
            return Ok(Some(organization));
        }
        let (pool, name) = (self.pool.clone(), slug.to_owned());
        let found = self
            .tasks
            .spawn(async move { pool::read(&pool, |db| Box::pin(find_organization(db, name.clone()))).await })
            .await;
        let found = found.map_err(Error::internal)??;
        if let Some(organization) = &found {
            self.organizations.insert(slug.to_owned(), organization.clone());
        }
        Ok(found)
    }
}

async fn find_session(db: &mut PgConnection, hash: [u8; 32]) -> sqlx::Result<Option<Session>> {
    let row = sqlx::query(
        "-- gate.find_session
         select c.org_id, o.slug, o.registration = 'open' as open, c.credential_id, c.owner_id, c.shown_prefix,
            c.agent_id, a.name
         from credential c join organization o using (org_id) left join agent a using (org_id, agent_id)
         where c.key_hash = $1 and c.revoked_at is null",
    )
    .bind(hash.to_vec())
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let slug: String = row.try_get("slug")?;
    let org = Organization { org_id: row.try_get("org_id")?, slug: slug.into(), open: row.try_get("open")? };
    let credential_id = row.try_get("credential_id")?;
    let owner_id = row.try_get("owner_id")?;
    let agent_id: Option<Uuid> = row.try_get("agent_id")?;
    Ok(Some(match agent_id {
        Some(agent_id) => {
            let (agent_name, key_prefix) = (row.try_get("name")?, row.try_get("shown_prefix")?);
            let agent = AgentSession { credential_id, agent_id, agent_name, owner_id, key_prefix };
            Session { org, agent: Some(Arc::new(agent)), owner: None }
        }
        None => Session { org, agent: None, owner: Some(Arc::new(OwnerSession { credential_id, owner_id })) },
    }))
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
