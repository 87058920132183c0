//! Chores beside calls: whoever comes first wins, nothing is left over, and each chore stands alone.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tokio::task::JoinSet;
use uuid::Uuid;
use waypost::chores;

use super::{do_chores, number, owned, settled, tamper};
use crate::house::{Agent, House, send, until};

const AGE: &str = "update agent set created_at = clock_timestamp() - interval '25 hours' where agent_id = $1";

/// An agent that registered over a day ago and never polled.
async fn idle(house: &House) -> Agent {
    let agent = house.register().await;
    tamper(house, &agent, AGE).await;
    agent
}

async fn exists(house: &House, agent: &Agent) -> bool {
    number(house, agent, "select count(*) from agent where agent_id = $1").await == 1
}

/// Waits until so many sessions of this house wait for locks.
async fn waiting(house: &House, sessions: i64) {
    let count = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let look = async || sqlx::query_scalar::<_, i64>(count).fetch_one(&house.db).await.unwrap() == sessions;
    until("a session waits for a lock", look).await;
}

/// Runs one statement in a transaction that the test leaves open; `$1` is the agent.
async fn under_way(db: &mut PgConnection, agent: &Agent, sql: &'static str) {
    let id: Uuid = agent.id.parse().unwrap();
    sqlx::raw_sql("begin").execute(&mut *db).await.unwrap();
    sqlx::query(sql).bind(id).execute(&mut *db).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_first_poll_succeeded_is_never_removed() {
    const AGENTS: usize = 120;
    let house = Arc::new(House::open().await);
    let mut agents = Vec::new();
    for _ in 0..AGENTS {
        agents.push(idle(&house).await);
    }
    let mut polling = JoinSet::new();
    for some in agents.chunks(AGENTS / 8) {
        let (house, some) = (house.clone(), some.to_vec());
        polling.spawn(async move {
            let mut answers = Vec::new();
            for agent in some {
                let answer = house.call(0, &agent, "mailbox_check", json!({})).await;
                answers.push((agent, answer));
            }
            answers
        });
    }
    do_chores(&house).await;
    for (agent, answer) in polling.join_all().await.into_iter().flatten() {
        match answer.status {
            200 => assert!(exists(&house, &agent).await, "polled and removed"),
            status => assert_eq!((status, exists(&house, &agent).await), (401, false), "{}", answer.body),
        }
    }
}

/// What a first poll stores.
const POLL: &str = "insert into poll (org_id, agent_id, first_polled_at, last_polled_at, polled_hour, hours)
    select org_id, agent_id, now(), now(), 0, b'1'::bit(24) from agent where agent_id = $1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_poll_under_way_keeps_its_agent_and_ends_its_trial() {
    let house = House::open().await;
    let idle = idle(&house).await;
    let mut db = house.db.acquire().await.unwrap();
    under_way(&mut db, &idle, POLL).await;
    do_chores(&house).await;
    sqlx::raw_sql("commit").execute(&mut *db).await.unwrap();
    do_chores(&house).await;
    let kept = "select count(*) from agent where agent_id = $1 and not on_trial";
    assert_eq!(number(&house, &idle, kept).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_claim_under_way_keeps_its_agent() {
    let house = House::open().await;
    let idle = idle(&house).await;
    let mut db = house.db.acquire().await.unwrap();
    under_way(&mut db, &idle, "select from mailbox where agent_id = $1 for no key update").await;
    let claim = house.call(0, &idle, "mailbox_claim", json!({}));
    let (answer, ()) = tokio::join!(claim, async {
        // It has polled, and waits for its mailbox.
        waiting(&house, 1).await;
        do_chores(&house).await;
        sqlx::raw_sql("commit").execute(&mut *db).await.unwrap();
    });
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(exists(&house, &idle).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_poll_that_meets_the_removal_is_told_that_the_key_is_gone() {
    let house = House::open().await;
    let idle = idle(&house).await;
    for tool in ["mailbox_check", "mailbox_claim"] {
        let idle = self::idle(&house).await;
        let mut db = house.db.acquire().await.unwrap();
        under_way(&mut db, &idle, "select from credential where agent_id = $1 for update").await;
        let ((), answer, ()) = tokio::join!(
            do_chores(&house),
            async {
                waiting(&house, 1).await;
                house.call(0, &idle, tool, json!({})).await
            },
            async {
                waiting(&house, 2).await;
                sqlx::raw_sql("rollback").execute(&mut *db).await.unwrap();
            }
        );
        assert_eq!((answer.status, &answer.body["code"]), (401, &json!("unauthorized")), "{}", answer.body);
        assert!(!exists(&house, &idle).await);
    }
    assert!(!exists(&house, &idle).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_arrives_during_the_removal_leaves_nothing() {
    let house = House::open().await;
    let idle = idle(&house).await;
    let mut db = house.db.acquire().await.unwrap();
    let post = "with moved as (update mailbox set last_seq = 2, open = open + 1 where agent_id = $1 returning *),
        stored as (
            insert into message (org_id, message_id, sender_name, recipient_agent_id, message_type, body, created_at)
            select org_id, gen_random_uuid(), 'Ada', agent_id, 'direct', 'hi', now() from moved returning message_id)
        insert into inbox_entry (org_id, agent_id, seq, message_id, counted, ack_requested)
        select org_id, agent_id, 2, message_id, false, false from moved, stored";
    under_way(&mut db, &idle, post).await;
    let ((), ()) = tokio::join!(do_chores(&house), async {
        waiting(&house, 1).await;
        sqlx::raw_sql("commit").execute(&mut *db).await.unwrap();
    });
    assert!(!exists(&house, &idle).await);
    let left = "select count(*) from message where recipient_agent_id = $1";
    assert_eq!(number(&house, &idle, left).await, 0);
}

#[tokio::test]
async fn an_owner_goes_with_its_last_agent_and_stays_with_any_other() {
    let house = House::open().await;
    let (alone, first) = (idle(&house).await, idle(&house).await);
    let second = house.register_with(json!({ "owner_key": first.owner_key })).await;
    house.ok(&second, "mailbox_check", json!({})).await;
    do_chores(&house).await;
    assert!(!exists(&house, &alone).await && !exists(&house, &first).await);
    let refused = owned(&house, 0, &alone.owner_key, Method::GET, "/agents", Value::Null).await;
    assert_eq!(refused.status, 401, "{}", refused.body);
    let listed = owned(&house, 0, &first.owner_key, Method::GET, "/agents", Value::Null).await;
    assert_eq!(listed.body["agents"][0]["agent_id"], second.id);
    let counts: (i64, i64) = sqlx::query_as("select (select count(*) from owner), count(*) from credential")
        .fetch_one(&house.db)
        .await
        .unwrap();
    assert_eq!(counts, (1, 2), "the owner that is left, its key and its agent's");
}

#[tokio::test]
async fn a_chore_that_fails_stops_no_other() {
    let house = House::open().await;
    let idle = idle(&house).await;
    sqlx::raw_sql(
        "alter table idempotency rename column created_at to made_at;
         update registration set registered_at = registered_at - interval '2 days'",
    )
    .execute(&house.db)
    .await
    .unwrap();
    let mut db = house.db.acquire().await.unwrap();
    let failures = chores::run_all(&mut db).await;
    let failed: Vec<&str> = failures.iter().map(|failure| failure.chore).collect();
    assert_eq!(failed, ["mailbox.forget_idempotency_keys"]);
    let left: i64 =
        sqlx::query_scalar("select count(*) from registration").fetch_one(&house.db).await.unwrap();
    assert_eq!(left, 0, "the chore behind the broken one was not done");
    assert!(!exists(&house, &idle).await);
}

#[tokio::test]
async fn runs_that_ended_or_hold_nothing_leave_no_row() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let runs = async || number(&house, &bob, "select count(*) from claim_run where agent_id = $1").await;
    assert_eq!(runs().await, 0, "all of it was acked");
    let ended = "insert into claim_run (org_id, agent_id, run_id, lease_until, seqs, held)
        select org_id, agent_id, gen_random_uuid(), now() - interval '1 minute', '{1}', 1
        from agent, generate_series(1, 20000) where agent_id = $1";
    tamper(&house, &bob, ended).await;
    for body in ["1", "2", "3"] {
        send(&house, &ada, &bob, body).await;
    }
    let first = house.ok(&bob, "mailbox_claim", json!({ "limit": 2 })).await;
    assert_eq!(runs().await, 1, "the next claim clears away what ended");
    house.ok(&bob, "mailbox_claim", json!({})).await;
    assert_eq!(runs().await, 2, "what lives stays");
    let one = json!({ "message_ids": [first["messages"][0]["id"]] });
    house.ok(&bob, "mailbox_ack", one).await;
    let counts = super::summary(&house, &bob).await;
    assert_eq!((runs().await, &counts["claimed"]), (2, &json!(2)));
    let other = json!({ "message_ids": [first["messages"][1]["id"]] });
    house.ok(&bob, "mailbox_ack", other).await;
    assert_eq!((runs().await, &super::summary(&house, &bob).await["claimed"]), (1, &json!(1)));
}
