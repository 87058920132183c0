//! Two organizations on one pod: ours, where fresh callers own a little of everything, and a foreign one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use waypost::call::{Access, Entry, Registry};
use waypost::config::{Chore, OrgChore, Registration};
use waypost::operator;

use super::doors::{self, Sent, Way};
use super::reply::{self, Reply};
use crate::house::{House, is_named, until};

pub const OURS: &str = "ours";
pub const THEIRS: &str = "theirs";
/// In a message of theirs.
pub const THEIR_BODY: &str = "theirs alone";

/// The house with both organizations.
pub struct Grounds {
    pub house: House,
    pub registry: Registry,
    callers: AtomicUsize,
}

/// Somebody with an agent, a peer that wrote to it, and a spare key.
#[derive(Debug, Clone)]
pub struct Caller {
    pub org: String,
    pub agent_id: String,
    pub api_key: String,
    pub owner_key: String,
    pub peer_id: String,
    pub peer_name: String,
    /// From the peer, not acked, asks for an ack.
    pub message_id: String,
    /// A further key of the agent.
    pub key_id: String,
}

impl Grounds {
    /// Both organizations, with mail in the foreign one.
    pub async fn open() -> Grounds {
        let house = House::open().await;
        let grounds = Grounds { house, registry: waypost::registry(), callers: AtomicUsize::new(0) };
        grounds.found(OURS).await;
        grounds.found(THEIRS).await;
        grounds.furnish_theirs().await;
        grounds
    }

    /// Creates an organization.
    pub async fn found(&self, slug: &str) {
        let create = OrgChore::Create { slug: slug.into(), registration: Registration::Open };
        operator::run(self.house.options.clone(), Chore::Org(create)).await.unwrap();
    }

    /// A row in as many tables of the foreign organization as its callers can reach.
    async fn furnish_theirs(&self) {
        let caller = self.caller_in(THEIRS).await;
        let act = async |path: &str, body: Value| {
            let path = format!("/o/{THEIRS}/api/v1/{path}");
            let answer = self.house.post(0, &path, Some(&caller.api_key), &body).await;
            assert!(answer.status < 300, "{path}: {}", answer.body);
        };
        act(
            "mailbox/messages",
            json!({ "recipient_agent_id": caller.peer_id, "body": THEIR_BODY, "client_message_id": "their-key",
                "thread_id": uuid() }),
        )
        .await;
        act("mailbox/claim", json!({ "run_id": uuid() })).await;
    }

    /// The pod's URL below an organization.
    pub fn root(&self, org: &str) -> String {
        format!("{}/o/{org}", self.house.url(0))
    }

    /// A fresh caller of our organization: what one call does to it, no other call sees.
    pub async fn caller(&self) -> Caller {
        self.caller_in(OURS).await
    }

    /// A fresh caller of that organization.
    pub async fn caller_in(&self, org: &str) -> Caller {
        let number = self.callers.fetch_add(1, Ordering::Relaxed);
        let post = async |path: &str, key: Option<&str>, body: Value| {
            let answer = self.house.post(0, &format!("/o/{org}/api/v1/{path}"), key, &body).await;
            assert!(answer.status < 300, "{path}: {}", answer.body);
            answer.body
        };
        let new = |name: String| json!({ "agent_name": name, "auto_provision_testnet_wallet": false });
        let agent = post("onboard", None, new(format!("{org} agent {number}"))).await;
        let peer = post("onboard", None, new(format!("{org} peer {number}"))).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let letter =
            json!({ "recipient_agent_id": agent["agent_id"], "body": "hello", "ack_requested": true });
        let sent = post("mailbox/messages", Some(&text(&peer["api_key"])), letter).await;
        let owner_key = text(&agent["owner_key"]);
        let keys = format!("{}/api/v1/agents/{}/keys", self.root(org), text(&agent["agent_id"]));
        let request = self.house.http().post(keys).header("x-owner-key", &owner_key);
        let spare = self.house.send(request, None).await.body;
        self.give_webhook(&text(&agent["agent_id"])).await;
        Caller {
            org: org.to_owned(),
            agent_id: text(&agent["agent_id"]),
            api_key: text(&agent["api_key"]),
            owner_key,
            peer_id: text(&peer["agent_id"]),
            peer_name: text(&peer["agent_name"]),
            message_id: text(&sent["message_id"]),
            key_id: text(&spare["key_id"]),
        }
    }

    /// A webhook that waits to be verified; at nobody's port.
    async fn give_webhook(&self, agent_id: &str) {
        sqlx::query(
            "with hooked as (
                update mailbox set hooked = true where agent_id = $1::text::uuid returning org_id, agent_id)
             insert into webhook (org_id, agent_id, url, authority, sealed_secret, challenge, activation)
             select org_id, agent_id, 'https://example.com/', 'example.com:443', '', 'a', gen_random_uuid()
             from hooked",
        )
        .bind(agent_id)
        .execute(&self.house.db)
        .await
        .unwrap();
    }

    /// Calls a tool as that caller, its key in a header.
    pub async fn call(
        &self,
        caller: &Caller,
        entry: &Arc<Entry>,
        way: Way,
        arguments: Map<String, Value>,
    ) -> Reply {
        self.call_with(&self.root(&caller.org), &caller.sent(entry), entry, way, arguments).await
    }

    /// Calls a tool with whatever credential. A refusal is one that the tool's documents name.
    pub async fn call_with(
        &self,
        root: &str,
        key: &Sent,
        entry: &Arc<Entry>,
        way: Way,
        arguments: Map<String, Value>,
    ) -> Reply {
        let reply = reply::send(doors::request(self.house.http(), root, entry, way, key, arguments)).await;
        if reply.answer(way).is_none() {
            is_named(entry, &reply.code().unwrap_or_default());
        }
        reply
    }

    /// All rows of an organization, by table.
    pub async fn rows(&self, org: &str) -> Vec<(String, Vec<String>)> {
        rows(&self.house.db, org).await
    }

    /// Count and hash of every table's rows: changes whenever anything does.
    pub async fn digest(&self) -> Vec<String> {
        // A poll that was noted is one of the changes.
        self.house.write_polls_down().await;
        digest(&self.house.db).await
    }
}

impl Caller {
    /// The key that the tool asks for, in its header.
    pub fn sent(&self, entry: &Entry) -> Sent {
        match entry.spec.access {
            Access::Anyone => Sent::Nothing,
            access => Sent::Header(access, self.key(access)),
        }
    }

    /// The key of this kind.
    pub fn key(&self, access: Access) -> String {
        match access {
            Access::Agent => self.api_key.clone(),
            Access::Anyone | Access::Owner => self.owner_key.clone(),
        }
    }
}

/// An id that nothing has.
pub fn uuid() -> String {
    ::uuid::Uuid::new_v4().to_string()
}

/// Every table that has an `org_id`, with the organization's rows as text, sorted.
async fn rows(db: &PgPool, org: &str) -> Vec<(String, Vec<String>)> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select table_name::text from information_schema.columns
         where table_schema = 'public' and column_name = 'org_id' order by 1",
    )
    .fetch_all(db)
    .await
    .unwrap();
    let mut all = Vec::new();
    for table in tables {
        let query = format!(
            "select to_jsonb(t)::text from {table} t
             where t.org_id = (select org_id from organization where slug = $1) order by 1"
        );
        let rows = sqlx::query_scalar(AssertSqlSafe(query)).bind(org).fetch_all(db).await.unwrap();
        all.push((table, rows));
    }
    all
}

/// Every table but that of live pods, which pods stamp whatever is sent.
async fn digest(db: &PgPool) -> Vec<String> {
    // What was registered is verified by the pod itself, a moment later.
    let under_way = "select exists (select from webhook where due_at is not null)";
    until("all webhooks are verified", async || {
        !sqlx::query_scalar::<_, bool>(under_way).fetch_one(db).await.unwrap()
    })
    .await;
    let tables: Vec<String> = sqlx::query_scalar(
        "select tablename::text from pg_tables
         where schemaname = 'public' and tablename <> 'live_pod' order by 1",
    )
    .fetch_all(db)
    .await
    .unwrap();
    let of_table = tables.iter().map(|table| {
        format!("select '{table} ' || count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' order by t::text)), '') from {table} t")
    });
    let query = of_table.collect::<Vec<_>>().join(" union all ");
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(db).await.unwrap()
}
