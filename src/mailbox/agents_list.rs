//! `GET /api/v1/agents`: an owner's agents and their keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::inbound::Policy;
use super::rows;
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool, cursor};
use crate::instant;
use crate::page;

/// Your agents, oldest first, with the keys that still work (never the keys themselves).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AgentsList {
    /// Most agents on this page.
    #[serde(default = "rows::hundred")]
    #[schemars(range(min = 1, max = 100))]
    limit: i64,
    /// next_cursor of the page before.
    cursor: Option<String>,
}

/// A page of agents.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Agents {
    /// Oldest first.
    agents: Vec<OwnedAgent>,
    /// There are more: pass it as cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// An agent as its owner sees it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OwnedAgent {
    /// Its id.
    agent_id: Uuid,
    /// Its name as registered.
    agent_name: String,
    /// When it was registered.
    #[serde(with = "instant")]
    #[schemars(with = "String")]
    created_at: OffsetDateTime,
    /// Whether it has ever polled; one that never does is removed after 24 hours.
    permanent: bool,
    /// Whether it answered a probe.
    verified: bool,
    /// Its last poll.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    last_polled_at: Option<OffsetDateTime>,
    /// Whose mail it takes.
    inbound: Policy,
    /// What it declared at registration.
    profile: Value,
    /// Its keys that still work.
    keys: Vec<ShownKey>,
}

/// A key, known by how it begins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShownKey {
    /// Its id, to revoke it.
    key_id: Uuid,
    /// How it begins.
    key_prefix: String,
    /// When it was made.
    #[serde(with = "instant")]
    #[schemars(with = "String")]
    created_at: OffsetDateTime,
}

impl Tool for AgentsList {
    type Answer = Agents;
    const SPEC: Spec = Spec {
        name: "agents_list",
        title: "List your agents",
        access: Access::Owner,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Routes,
        routes: &[Route::get("/api/v1/agents")],
    };

    async fn run(&self, call: &mut Call<'_>) -> Result<Agents> {
        let (org_id, owner_id) = (call.caller.org.org_id, call.caller.owner()?.owner_id);
        let listing = format!("agents/{owner_id}");
        let after = self.cursor.as_deref().map(|text| cursor::decode::<Place>(&listing, text)).transpose()?;
        let mut agents = rows(call.db.get().await?, org_id, owner_id, after, self.limit + 1).await?;
        for agent in &mut agents {
            agent.last_polled_at = call.last_poll(agent.agent_id, agent.last_polled_at);
        }
        let fits = page::fitting(&agents, FRAME)?.min(self.limit as usize);
        let has_more = agents.len() > fits;
        agents.truncate(fits);
        let last = agents.last().filter(|_| has_more);
        let next_cursor = last.map(|agent| cursor::encode(&listing, place_of(agent))).transpose()?;
        Ok(Agents { agents, next_cursor })
    }
}

/// Bytes kept for what a page holds beside its agents.
const FRAME: usize = 1024;

/// Microseconds since 1970, as fine as Postgres keeps time, and the id: the order of the list.
type Place = (i64, Uuid);

fn place_of(agent: &OwnedAgent) -> Place {
    let micros = agent.created_at.unix_timestamp_nanos() / 1_000;
    (i64::try_from(micros).unwrap_or(i64::MAX), agent.agent_id)
}

/// A cursor is not signed: years before 0 are more than Postgres can hold.
fn instant_of(place: Place) -> Result<OffsetDateTime> {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(place.0) * 1_000).ok();
    let refused = || Error::invalid("cursor", "is not a cursor of this listing; start again without one");
    at.filter(|at| at.year() >= 0).ok_or_else(refused)
}

async fn rows(
    db: &mut PgConnection,
    org_id: Uuid,
    owner_id: Uuid,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<OwnedAgent>> {
    let at = after.map(instant_of).transpose()?;
    let rows = sqlx::query(
        "-- mailbox.agents_page
         select a.agent_id, a.name, a.created_at, a.inbound, a.profile, a.verified_at is not null as verified,
            p.last_polled_at,
            coalesce((select jsonb_agg(jsonb_build_object('key_id', c.credential_id, 'key_prefix', c.shown_prefix,
                    'created_at', c.created_at) order by c.created_at, c.credential_id)
                from credential c
                where c.org_id = a.org_id and c.agent_id = a.agent_id and c.revoked_at is null), '[]') as keys
         from agent a left join poll p using (org_id, agent_id)
         where a.org_id = $1 and a.owner_id = $2
           and ($3::timestamptz is null or (a.created_at, a.agent_id) > ($3, $4))
         order by a.created_at, a.agent_id limit $5",
    )
    .bind(org_id)
    .bind(owner_id)
    .bind(at)
    .bind(after.map(|place| place.1))
    .bind(limit)
    .fetch_all(db)
    .await?;
    Ok(rows.iter().map(owned_agent).collect::<sqlx::Result<_>>()?)
}

fn owned_agent(row: &PgRow) -> sqlx::Result<OwnedAgent> {
    let last_polled_at: Option<OffsetDateTime> = row.try_get("last_polled_at")?;
    let Json(profile) = row.try_get("profile")?;
    let Json(keys) = row.try_get("keys")?;
    Ok(OwnedAgent {
        agent_id: row.try_get("agent_id")?,
        agent_name: row.try_get("name")?,
        created_at: row.try_get("created_at")?,
        permanent: last_polled_at.is_some(),
        verified: row.try_get("verified")?,
        last_polled_at,
        inbound: row.try_get("inbound")?,
        profile,
        keys,
    })
}
