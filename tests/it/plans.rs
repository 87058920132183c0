//! How the pod's sessions plan: by key, however young the tables were when the plan was made.

use sqlx::{Connection, PgConnection};
use waypost::postgres::{pool, statistics};

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

/// The check of a foreign key, as Postgres asks it.
const CHECK: &str = "prepare check_key (uuid, uuid) as select 1 from only message x
    where x.org_id = $1 and x.message_id = $2 for key share of x";

#[tokio::test]
async fn a_table_that_grows_is_soon_read_by_the_key_that_finds_one_row() {
    let house = House::empty().await;
    let mut db = PgConnection::connect_with(&pool::session(house.options.clone())).await.unwrap();
    sqlx::raw_sql(
        "insert into message (org_id, message_id, sender_name, message_type, body, created_at)
         select org_id, gen_random_uuid(), 'a', 'direct', 'hello', now() from organization, generate_series(1, 500)",
    )
    .execute(&mut db)
    .await
    .unwrap();
    sqlx::raw_sql(CHECK).execute(&mut db).await.unwrap();
    assert!(statistics::follow_growth(&mut db).await.unwrap() > 0);
    assert_eq!(statistics::follow_growth(&mut db).await.unwrap(), 0, "nothing has grown since");
    let plan: Vec<String> =
        sqlx::query_scalar("explain execute check_key (null, null)").fetch_all(&mut db).await.unwrap();
    assert!(plan.join("\n").contains("using message_pkey"), "{plan:#?}");
}
