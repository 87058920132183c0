//! Agents, written straight into the database: thousands of registrations would take longer than what is measured.
//! Their mailboxes are empty, without the notice that a registration leaves.

use sqlx::PgConnection;
use uuid::Uuid;
use waypost::call::credential::{Kind, Secret};

/// The organization of all agents but those of `send`'s many.
pub const PUBLIC: &str = "public";

/// An agent that takes part.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Its id.
    pub id: Uuid,
    /// The header line that carries its key, ended by CR LF.
    pub key: String,
    /// What stands before its routes: nothing, or `/o/` and its organization.
    pub root: String,
}

/// Makes so many agents of an organization, and the organization when it is new.
pub async fn make(db: &mut PgConnection, org: &str, count: usize) -> Vec<Agent> {
    let org_id: Uuid = sqlx::query_scalar(
        "-- agents.make_org
         insert into organization (org_id, slug) values ($1, $2)
         on conflict (slug) do update set slug = excluded.slug returning org_id",
    )
    .bind(Uuid::now_v7())
    .bind(org)
    .fetch_one(&mut *db)
    .await
    .unwrap();
    let ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
    let keys: Vec<Secret> = (0..count).map(|_| Secret::mint(Kind::Agent)).collect();
    sqlx::query(MAKE)
        .bind(org_id)
        .bind(Uuid::now_v7())
        .bind(&ids)
        .bind(keys.iter().map(|key| key.hash().to_vec()).collect::<Vec<_>>())
        .bind(keys.iter().map(Secret::shown_prefix).collect::<Vec<_>>())
        .execute(db)
        .await
        .unwrap();
    let root = if org == PUBLIC { String::new() } else { format!("/o/{org}") };
    let pairs = ids.into_iter().zip(keys);
    let agent = |(id, key): (Uuid, Secret)| Agent {
        id,
        key: format!("authorization: Bearer {}\r\n", key.expose()),
        root: root.clone(),
    };
    pairs.map(agent).collect()
}

/// One owner for all of them; their trial is over, so that no chore judges them.
const MAKE: &str = "-- agents.make
    with person as (
        select * from unnest($3::uuid[], $4::bytea[], $5::text[]) as p(agent_id, key_hash, shown_prefix)
    ), owned as (
        insert into owner (org_id, owner_id) values ($1, $2)
    ), stored as (
        insert into agent (org_id, agent_id, owner_id, name, name_folded, on_trial)
        select $1, agent_id, $2, agent_id::text, agent_id::text, false from person
    ), boxed as (
        insert into mailbox (org_id, agent_id) select $1, agent_id from person
    )
    insert into credential (key_hash, org_id, credential_id, kind, owner_id, agent_id, shown_prefix)
    select key_hash, $1, gen_random_uuid(), 'agent', $2, agent_id, shown_prefix from person";
