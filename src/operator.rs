//! The operator's chores on the command line: organizations, agents, keys. Each prints JSON.

use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, PgPool, Row};
use uuid::Uuid;

use crate::call::{Error, Organization, Result};
use crate::config::{AgentChore, Caps, Chore, KeyChore, OrgChore, Registration};
use crate::egress;
use crate::instant;
use crate::mailbox::{NewAgent, create_agent, mint_agent_key, names, revoke_keys};
use crate::postgres::pool;
use crate::postgres::transaction::{Ended, Transaction};

/// Carries out one chore in one transaction, and gives what to print.
pub async fn run(options: PgConnectOptions, chore: Chore) -> Result<Value> {
    let pool = pool::open(options, 1);
    let done = in_transaction(&pool, chore).await;
    pool.close().await;
    done
}

async fn in_transaction(pool: &PgPool, chore: Chore) -> Result<Value> {
    let mut transaction = Transaction::begin(pool).await?;
    let done = match chore {
        Chore::Org(chore) => org(transaction.connection()?, chore).await,
        Chore::Agent(chore) => agent(transaction.connection()?, chore).await,
        Chore::Key(chore) => key(transaction.connection()?, chore).await,
    };
    if done.is_err() {
        transaction.rollback().await;
        return done;
    }
    match transaction.commit(pool).await {
        Ended::Committed { .. } => done,
        Ended::Aborted(error) => Err(error.into()),
        Ended::Unknown(error) => Err(Error::Unavailable { outcome_unknown: true, source: error.into() }),
    }
}

async fn org(db: &mut PgConnection, chore: OrgChore) -> Result<Value> {
    match chore {
        OrgChore::Create { slug, registration } => create_org(db, &slug, registration).await,
        OrgChore::Egress { slug, allow, none: _, any } => {
            let org_id = find_org(db, &slug).await?;
            let hosts: Vec<String> = allow.iter().map(|host| host.to_ascii_lowercase()).collect();
            if !hosts.iter().all(|host| egress::is_host(host)) {
                return Err(Error::invalid(
                    "--allow",
                    "must be a host such as hooks.example.com or *.example.com",
                ));
            }
            let hosts = (!any).then_some(hosts);
            egress::set_policy(db, org_id, hosts.as_deref()).await?;
            Ok(json!({ "org_id": org_id, "slug": slug, "allowed_hosts": hosts }))
        }
        OrgChore::List => {
            let rows = sqlx::query(
                "-- operator.list_orgs\n select org_id, slug, registration, created_at from organization order by slug",
            )
            .fetch_all(db)
            .await?;
            let orgs = rows.iter().map(|row| {
                let org_id: Uuid = row.try_get(0)?;
                let (slug, registration): (String, String) = (row.try_get(1)?, row.try_get(2)?);
                Ok(json!({ "org_id": org_id, "slug": slug, "registration": registration,
                    "created_at": instant::format(row.try_get(3)?) }))
            });
            Ok(json!({ "organizations": orgs.collect::<sqlx::Result<Vec<Value>>>()? }))
        }
    }
}

async fn create_org(db: &mut PgConnection, slug: &str, registration: Registration) -> Result<Value> {
    if !Organization::is_slug(slug) {
        return Err(Error::invalid(
            "SLUG",
            "must be lower-case letters, digits and dashes, a letter first, at most 63",
        ));
    }
    let registration = match registration {
        Registration::Open => "open",
        Registration::Closed => "closed",
    };
    let org_id = Uuid::now_v7();
    let made = sqlx::query(
        "-- operator.create_org
         insert into organization (org_id, slug, registration) values ($1, $2, $3) on conflict (slug) do nothing",
    )
    .bind(org_id)
    .bind(slug)
    .bind(registration)
    .execute(db)
    .await?;
    match made.rows_affected() {
        0 => Err(Error::invalid("SLUG", "names an organization that exists already")),
        _ => Ok(json!({ "org_id": org_id, "slug": slug, "registration": registration })),
    }
}

async fn agent(db: &mut PgConnection, chore: AgentChore) -> Result<Value> {
    match chore {
        AgentChore::Create { org, name } => {
            let org_id = find_org(db, &org).await?;
            let judged = name.as_deref().map(names::judge).transpose();
            judged.map_err(|problem| Error::invalid("--name", problem))?;
            let new = NewAgent { org_id, owner_id: None, name, contact_uri: None, profile: json!({}) };
            let made = create_agent(db, Caps { mailbox: 0, sender: 0 }, new).await?;
            Ok(json!({
                "agent_id": made.agent_id, "agent_name": made.name, "org": org, "api_key": made.api_key.expose(),
                "owner_id": made.owner_id, "owner_key": made.owner_key.as_ref().map(|key| key.expose()),
            }))
        }
        AgentChore::List { org } => {
            let org_id = find_org(db, &org).await?;
            let rows = sqlx::query(
                "-- operator.list_agents
                 select agent_id, name, owner_id, created_at from agent where org_id = $1 order by created_at, agent_id",
            )
            .bind(org_id)
            .fetch_all(db)
            .await?;
            let agents = rows.iter().map(|row| {
                let (agent_id, name, owner_id): (Uuid, String, Uuid) =
                    (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                Ok(json!({ "agent_id": agent_id, "agent_name": name, "owner_id": owner_id,
                    "created_at": instant::format(row.try_get(3)?) }))
            });
            Ok(json!({ "agents": agents.collect::<sqlx::Result<Vec<Value>>>()? }))
        }
    }
}

async fn key(db: &mut PgConnection, chore: KeyChore) -> Result<Value> {
    match chore {
        KeyChore::Renew { org, agent_id } => {
            let org_id = find_org(db, &org).await?;
            let agent_id: Uuid =
                agent_id.parse().map_err(|_| Error::invalid("AGENT_ID", "must be a UUID"))?;
            let owner_id: Option<Uuid> = sqlx::query_scalar(
                "-- operator.owner_of\n select owner_id from agent where org_id = $1 and agent_id = $2 for no key update",
            )
            .bind(org_id)
            .bind(agent_id)
            .fetch_optional(&mut *db)
            .await?;
            let owner_id = owner_id.ok_or(Error::NotFound("agent"))?;
            let revoked = revoke_keys(db, org_id, agent_id, None).await?;
            let (key_id, secret) = mint_agent_key(db, org_id, owner_id, agent_id).await?;
            Ok(
                json!({ "agent_id": agent_id, "key_id": key_id, "api_key": secret.expose(), "revoked": revoked.len() }),
            )
        }
        KeyChore::Revoke { org, key_id } => {
            let org_id = find_org(db, &org).await?;
            let key_id: Uuid = key_id.parse().map_err(|_| Error::invalid("KEY_ID", "must be a UUID"))?;
            let no_such_key = || Error::NotFound("key that still works");
            let agent_id = agent_of(db, org_id, key_id).await?.ok_or_else(no_such_key)?;
            match revoke_keys(db, org_id, agent_id, Some(key_id)).await?.is_empty() {
                true => Err(no_such_key()),
                false => Ok(json!({ "key_id": key_id, "revoked": true })),
            }
        }
    }
}

/// Whose key it is; `None` for an owner's key too.
async fn agent_of(db: &mut PgConnection, org_id: Uuid, key_id: Uuid) -> Result<Option<Uuid>> {
    let agent_id = sqlx::query_scalar(
        "-- operator.agent_of
         select agent_id from credential where org_id = $1 and credential_id = $2 and kind = 'agent'",
    )
    .bind(org_id)
    .bind(key_id)
    .fetch_optional(db)
    .await?;
    Ok(agent_id)
}

async fn find_org(db: &mut PgConnection, slug: &str) -> Result<Uuid> {
    let found = sqlx::query_scalar("-- operator.find_org\n select org_id from organization where slug = $1")
        .bind(slug)
        .fetch_optional(db)
        .await?;
    found.ok_or(Error::NotFound("organization"))
}
