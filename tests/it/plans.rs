//! How the pod's sessions plan: by key, however young the tables were when the plan was made.

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use waypost::postgres::pool;

use crate::house::House;

/// Statements shaped like those of the hot path, planned while their tables are empty.
const SHAPES: [(&str, &str); 3] = [
    (
        "a list of keys",
        "prepare p (uuid[], uuid[]) as select m.last_seq from mailbox m
         where (m.org_id, m.agent_id) in (select * from unnest($1, $2)) order by m.org_id, m.agent_id for no key update",
    ),
    (
        "a join on keys",
        "prepare p (uuid[], uuid[]) as select i.answer from unnest($1, $2) as k(org_id, agent_id)
         join idempotency i using (org_id, agent_id)",
    ),
    (
        "an update from a list of keys",
        "prepare p (uuid[], uuid[]) as update mailbox m set last_seq = m.last_seq
         from unnest($1, $2) as k(org_id, agent_id) where m.org_id = k.org_id and m.agent_id = k.agent_id",
    ),
];

#[tokio::test]
async fn a_plan_made_while_a_table_is_small_still_goes_by_the_key() {
    let house = House::empty().await;
    for (what, shape) in SHAPES {
        let mut db = PgConnection::connect_with(&pool::session(house.options.clone())).await.unwrap();
        sqlx::raw_sql(shape).execute(&mut db).await.unwrap();
        let plan: Vec<String> =
            sqlx::query_scalar("explain execute p ('{}', '{}')").fetch_all(&mut db).await.unwrap();
        let plan = plan.join("\n");
        assert!(plan.contains("Index") && !plan.contains("Seq Scan"), "{what}:\n{plan}");
    }
}

/// Look-ups of one row as Postgres and the pod ask them, and the index that finds it.
const ROWS: [(&str, &str); 8] = [
    (
        "select 1 from only message x where x.org_id = $1 and x.message_id = $2 for key share of x",
        "message_pkey",
    ),
    ("select 1 from only agent x where x.org_id = $1 and x.agent_id = $2 for key share of x", "agent_pkey"),
    ("select 1 from only owner x where x.org_id = $1 and x.owner_id = $2 for key share of x", "owner_pkey"),
    (
        "select e.seq from inbox_entry e
         where (e.org_id, e.agent_id, e.message_id) in (select * from unnest(array[$1], array[$1], array[$2]))
         order by e.org_id, e.agent_id, e.seq for update",
        "inbox_entry_message_id_agent_id_org_id_key",
    ),
    (
        "update inbox_entry e set acked_at = now()
         from unnest(array[$1], array[$1], array[$2]) as a(org_id, agent_id, message_id)
         where e.org_id = a.org_id and e.agent_id = a.agent_id and e.message_id = a.message_id",
        "inbox_entry_message_id_agent_id_org_id_key",
    ),
    (
        "update inbox_entry e set lease_until = now()
         from (select $1 as org_id, $2 as agent_id, unnest('{1,2}'::bigint[]) as seq) named
         where e.org_id = named.org_id and e.agent_id = named.agent_id and e.seq = named.seq",
        "inbox_entry_pkey",
    ),
    (
        "select e.seq from (select r.*, unnest(r.seqs) as seq from claim_run r
                where r.org_id = $1 and r.agent_id = $2 and r.run_id = $2) r cross join lateral (
            select * from inbox_entry e
            where e.org_id = r.org_id and e.agent_id = r.agent_id and e.seq = r.seq offset 0) e
         where e.acked_at is null and e.lease_run = r.run_id and e.lease_until = r.lease_until",
        "inbox_entry_pkey",
    ),
    (
        "select m.body from inbox_entry e cross join lateral (
            select * from message m where m.org_id = e.org_id and m.message_id = e.message_id offset 0) m
         where e.org_id = $1 and e.agent_id = $2 and e.acked_at is null order by e.seq limit 10 for update of e skip locked",
        "message_pkey",
    ),
];

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
