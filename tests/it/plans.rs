//! How the pod's sessions plan: by key, however young the tables were when the plan was made.

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use waypost::postgres::pool;

use crate::house::{Agent, House, send, until};
use crate::mailbox::owned;
use crate::streams::{Listener, fill};

/// What grows with use.
const TABLES: [&str; 6] = ["mailbox", "message", "inbox_entry", "idempotency", "credential", "agent"];

#[tokio::test]
async fn no_call_ever_scans_a_table_that_was_empty_when_the_pod_began() {
    let mut house = House::open().await;
    let (ada, bob) = (house.register().await, house.register().await);
    for round in 0..2 {
        exchange(&house, &ada, &bob, round).await;
        own(&house, &ada).await;
    }
    // A session tells what it did at its end at the latest, and is listed for longer than that.
    house.pods.pop().unwrap().drain().await;
    until("all sessions of the pod have ended", async || sessions(&house).await == 0).await;

    let used: Vec<(String, i64, i64)> = sqlx::query_as(
        "select relname::text, seq_scan, idx_scan from pg_stat_user_tables where relname = any($1)",
    )
    .bind(&TABLES[..])
    .fetch_all(&house.db)
    .await
    .unwrap();
    assert_eq!(used.len(), TABLES.len());
    assert!(
        used.iter().all(|(_, scans, look_ups)| *scans == 0 && *look_ups > 0),
        "scans, look-ups: {used:?}"
    );
}

/// A join that begins at the messages is as cheap as any while there are none, and its plan stays.
#[tokio::test]
async fn what_is_read_of_one_mailbox_touches_no_mail_of_others_that_came_after_the_plan_was_made() {
    let mut house = House::open().await;
    // Tables that are known to be empty are thought of as smaller than those nothing is known of.
    sqlx::raw_sql("vacuum analyze").execute(&house.db).await.unwrap();
    let (ada, bob, carol) = (house.register().await, house.register().await, house.register().await);
    for round in 0..2 {
        exchange(&house, &ada, &bob, round).await;
        stream_once(&house, &bob).await;
    }
    fill(&house, &carol.id, 5_000).await;
    exchange(&house, &ada, &bob, 2).await;
    stream_once(&house, &bob).await;
    house.pods.pop().unwrap().drain().await;
    until("all sessions of the pod have ended", async || sessions(&house).await == 0).await;
    let read: i64 = sqlx::query_scalar(
        "select sum(idx_tup_fetch + seq_tup_read)::bigint from pg_stat_user_tables
         where relname in ('message', 'inbox_entry')",
    )
    .fetch_one(&house.db)
    .await
    .unwrap();
    assert!(read < 500, "{read} rows");
}

/// What waits, and what comes after a cursor.
async fn stream_once(house: &House, agent: &Agent) {
    for query in ["?wait=0", "?wait=0&since=0"] {
        let mut stream = Listener::open(house, 0, agent, query).await;
        while stream.next().await.is_some() {}
    }
}

/// Mail from one agent to another and back, with a retry of everything that has a key.
async fn exchange(house: &House, ada: &Agent, bob: &Agent, round: usize) {
    send(house, ada, bob, "plain").await;
    let keyed =
        json!({ "recipient_agent_name": bob.name, "body": "keyed", "client_message_id": round.to_string() });
    for _ in 0..2 {
        house.ok(ada, "mailbox_send", keyed.clone()).await;
    }
    house.ok(bob, "mailbox_check", json!({})).await;
    let claimed = house.ok(bob, "mailbox_claim", json!({ "limit": 2 })).await;
    house.ok(bob, "mailbox_claim", json!({ "run_id": claimed["run_id"] })).await;
    let rest = house.ok(bob, "mailbox_claim", json!({})).await;
    let ids: Vec<&Value> = [&claimed, &rest]
        .iter()
        .flat_map(|claim| claim["messages"].as_array().unwrap())
        .map(|message| &message["id"])
        .collect();
    let ack = json!({ "message_ids": ids, "reply_text": "done", "ack_id": round.to_string() });
    for _ in 0..2 {
        house.ok(bob, "mailbox_ack", ack.clone()).await;
    }
    let path = format!("/api/v1/mailbox/messages/{}", ids[0].as_str().unwrap());
    for path in ["/api/v1/mailbox/summary", &path] {
        assert_eq!(house.get(0, path, Some(&bob.key)).await.status, 200, "{path}");
    }
    house.ok(ada, "who_am_i", json!({})).await;
}

/// What an owner does, with an agent that it has made.
async fn own(house: &House, ada: &Agent) {
    let agent = house.register_with(json!({ "owner_key": ada.owner_key })).await;
    let ask = async |method: Method, path: &str, body: Value| {
        let answer = owned(house, 0, &ada.owner_key, method, &format!("/agents{path}"), body).await;
        assert!(answer.status < 300, "{path}: {}", answer.body);
        answer.body
    };
    ask(Method::GET, "", Value::Null).await;
    let of = |what: &str| format!("/{}{what}", agent.id);
    ask(Method::POST, &of("/probe"), json!({})).await;
    let added = ask(Method::POST, &of("/keys"), json!({})).await;
    ask(Method::DELETE, &of(&format!("/keys/{}", added["key_id"].as_str().unwrap())), Value::Null).await;
    ask(Method::PUT, &of("/inbound"), json!({ "inbound": "known" })).await;
    ask(Method::GET, &of("/inbound"), Value::Null).await;
    let block = of(&format!("/blocks/{}", ada.id));
    ask(Method::PUT, &block, json!({})).await;
    ask(Method::DELETE, &block, Value::Null).await;
    let renewed = json!({ "owner_key": ada.owner_key, "agent_id": agent.id });
    house.ok(ada, "renew_agent_key", renewed).await;
}

async fn sessions(house: &House) -> i64 {
    sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and application_name = 'waypost'",
    )
    .fetch_one(&house.db)
    .await
    .unwrap()
}

/// Look-ups of one row as Postgres and the pod ask them, and the index that finds it.
const ROWS: [(&str, &str); 11] = [
    (
        "select 1 from only message x where x.org_id = $1 and x.message_id = $2 for key share of x",
        "message_pkey",
    ),
    ("select 1 from only agent x where x.org_id = $1 and x.agent_id = $2 for key share of x", "agent_pkey"),
    ("select 1 from only owner x where x.org_id = $1 and x.owner_id = $2 for key share of x", "owner_pkey"),
    (
        "select e.seq from inbox_entry e
         where (e.org_id, e.agent_id, e.message_id) in (select * from unnest(array[$1], array[$1], array[$2]))",
        "inbox_entry_message_id_agent_id_org_id_key",
    ),
    (
        "update inbox_entry e set acked_at = now()
         from unnest(array[$1], array[$1], array[$2]) as a(org_id, agent_id, message_id)
         where e.org_id = a.org_id and e.agent_id = a.agent_id and e.message_id = a.message_id",
        "inbox_entry_message_id_agent_id_org_id_key",
    ),
    (
        "with named as (select * from unnest(array[$1], array[$2], array[1::bigint]) as n(org_id, agent_id, seq)),
            run as (select org_id, agent_id, array_agg(seq) from named group by org_id, agent_id)
         update inbox_entry e set lease_until = now() from named n
         where e.org_id = n.org_id and e.agent_id = n.agent_id and e.seq = n.seq",
        "inbox_entry_pkey",
    ),
    (
        "select e.seq from (select r.*, unnest(r.seqs) as seq
            from unnest(array[$1], array[$1], array[$2]) as a(org_id, agent_id, run_id)
            join claim_run r using (org_id, agent_id, run_id)) r cross join lateral (
            select * from inbox_entry e
            where e.org_id = r.org_id and e.agent_id = r.agent_id and e.seq = r.seq offset 0) e
         where e.acked_at is null and e.lease_run = r.run_id and e.lease_until = r.lease_until",
        "inbox_entry_pkey",
    ),
    (FREE, "inbox_entry_unacked"),
    (FREE, "message_pkey"),
    (
        "select e.seq from unnest(array[$1], array[$1]) as u(org_id, agent_id), unnest(array[$2]) n(message_id)
         cross join lateral (
            select * from inbox_entry e
            where e.message_id = n.message_id and e.agent_id = u.agent_id and e.org_id = u.org_id offset 0) e",
        "inbox_entry_message_id_agent_id_org_id_key",
    ),
    (
        "select case when e.sender_agent_id is null and e.ack_requested then (
            select m.probe_nonce is not null from message m where m.org_id = e.org_id and m.message_id = e.message_id)
            end is true
         from inbox_entry e where e.org_id = $1 and e.agent_id = $2",
        "message_pkey",
    ),
];

/// What claims of several mailboxes could get.
const FREE: &str = "select f.* from unnest(array[$1], array[$2], array[3::bigint]) as u(org_id, agent_id, most)
    left join lateral (
        select m.body, sum(octet_length(m.body)) over (order by e.seq)
        from (select e.* from inbox_entry e
              where e.org_id = u.org_id and e.agent_id = u.agent_id and e.acked_at is null
                and (e.lease_until is null or e.lease_until <= now())
              order by e.seq limit u.most) e
        cross join lateral (
            select * from message m where m.org_id = e.org_id and m.message_id = e.message_id offset 0) m) f on true";

#[tokio::test]
async fn a_plan_made_before_anything_is_known_of_a_table_uses_the_index_that_finds_one_row() {
    let house = House::empty().await;
    for (statement, index) in ROWS {
        let mut db = PgConnection::connect_with(&pool::session(house.options.clone())).await.unwrap();
        let prepare = format!("prepare find_row (uuid, uuid) as {statement}");
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut db).await.unwrap();
        let plan: Vec<String> =
            sqlx::query_scalar("explain execute find_row (null, null)").fetch_all(&mut db).await.unwrap();
        assert!(plan.join("\n").contains(&format!("using {index}")), "{plan:#?}");
    }
}

/// What chores and claims look for among many rows, and the index that finds it.
const AMONG_MANY: [(&str, &str); 3] = [
    (
        "select a.agent_id from agent a where a.on_trial and a.created_at < clock_timestamp() - interval '24 hours'
            and not exists (select from poll p where p.org_id = a.org_id and p.agent_id = a.agent_id)
         order by a.created_at limit 100",
        "agent_on_trial",
    ),
    ("delete from credential c where c.org_id = $1 and c.agent_id = $2", "credential_by_agent"),
    ("delete from inbound_block b where b.org_id = $1 and b.sender_agent_id = $2", "inbound_block_by_sender"),
];

#[tokio::test]
async fn chores_walk_no_table_to_find_what_they_remove() {
    let house = House::empty().await;
    for (statement, index) in AMONG_MANY {
        let mut db = PgConnection::connect_with(&pool::session(house.options.clone())).await.unwrap();
        let prepare = format!("prepare find_rows (uuid, uuid) as {statement}");
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut db).await.unwrap();
        let plan: Vec<String> =
            sqlx::query_scalar("explain execute find_rows (null, null)").fetch_all(&mut db).await.unwrap();
        assert!(plan.join("\n").contains(index), "{plan:#?}");
    }
}
