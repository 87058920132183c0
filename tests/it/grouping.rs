//! Calls that post in groups: what goes wrong with one of them, or with another pod, is no other's trouble.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;
use waypost::config::{Caps, Config};
use waypost::inbox::{Key, Letter, Posting};

use crate::cuts::cut::Cut;
use crate::cuts::proxy::{At, How};
use crate::house::mail::{letter, stored};
use crate::house::{Agent, Answer, House, settings, until};

/// What nobody should notice takes less.
const AT_ONCE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_posting_that_the_database_refuses_fails_alone() {
    let house = Arc::new(roomy().await);
    let (sender, recipients) = (house.register().await, house.register_many(8).await);
    refuse_bodies(&house, "poison").await;
    for round in 0..5 {
        let bodies = (0..40).map(|n| if n % 13 == 5 { "poison".into() } else { format!("{round} {n}") });
        let calls = bodies.enumerate().map(|(n, body)| (recipients[n % 8].clone(), body)).collect();
        for (body, answer) in send_at_once(&house, &sender, calls).await {
            let wanted = if body == "poison" { 500 } else { 200 };
            assert_eq!(answer.status, wanted, "{body}: {}", answer.body);
        }
    }
    assert_eq!(stored(&house).await, 5 * 37);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_claim_that_the_database_refuses_fails_alone() {
    let house = Arc::new(roomy().await);
    let workers = house.register_many(9).await;
    let trigger = format!(
        "create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
         create trigger refuse before update on inbox_entry for each row when (new.agent_id = '{}')
         execute function refuse()",
        workers[4].id
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(trigger)).execute(&house.db).await.unwrap();
    for served in [1, 0, 0] {
        let mut claiming = JoinSet::new();
        for worker in workers.clone() {
            let house = house.clone();
            claiming.spawn(async move {
                (worker.id.clone(), house.call(0, &worker, "mailbox_claim", json!({})).await)
            });
        }
        for (worker, answer) in claiming.join_all().await {
            match worker == workers[4].id {
                true => assert_eq!(answer.status, 500, "{}", answer.body),
                false => assert_eq!(
                    answer.body["messages"].as_array().map(Vec::len),
                    Some(served),
                    "{}",
                    answer.body
                ),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_that_somebody_holds_delays_no_other() {
    let house = Arc::new(roomy().await);
    let (sender, recipients) = (house.register().await, house.register_many(9).await);
    let mut holder = holding(&house, &recipients[8]).await;
    let mut held = JoinSet::new();
    held.spawn({
        let (house, sender, recipient) = (house.clone(), sender.clone(), recipients[8].clone());
        async move { send(&house, &sender, &recipient, "held").await }
    });
    for _ in 0..10 {
        let calls = recipients[..8].iter().map(|recipient| (recipient.clone(), "free".to_owned())).collect();
        let began = Instant::now();
        for (_, answer) in send_at_once(&house, &sender, calls).await {
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
    sqlx::raw_sql("commit").execute(&mut holder).await.unwrap();
    let answer = the_one(held).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_held_for_too_long_is_told_and_nothing_is_stored() {
    let house = roomy().await;
    let (sender, recipient) = (house.register().await, house.register().await);
    let mut holder = holding(&house, &recipient).await;
    let began = Instant::now();
    let answer = send(&house, &sender, &recipient, "held").await;
    assert_eq!((answer.status, &answer.body["details"]["outcome"]), (503, &Value::Null), "{}", answer.body);
    assert!(answer.headers.contains_key("retry-after"));
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    sqlx::raw_sql("commit").execute(&mut holder).await.unwrap();
    assert_eq!(send(&house, &sender, &recipient, "after").await.status, 200);
    assert_eq!(stored(&house).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_somebody_is_about_to_take_delays_no_other() {
    let house = Arc::new(roomy().await);
    let (sender, recipients) = (house.register().await, house.register_many(9).await);
    let mut rival = PgConnection::connect_with(&house.options).await.unwrap();
    sqlx::raw_sql("begin").execute(&mut rival).await.unwrap();
    sqlx::query(
        "insert into idempotency (org_id, agent_id, namespace, key, fingerprint, answer)
         select org_id, agent_id, 'client_message_id', 'contested', sha256('other'), '{}' from agent
         where agent_id = $1::text::uuid",
    )
    .bind(&sender.id)
    .execute(&mut rival)
    .await
    .unwrap();
    let mut contested = JoinSet::new();
    contested.spawn({
        let (house, sender, to) = (house.clone(), sender.clone(), recipients[8].id.clone());
        let message = json!({ "recipient_agent_id": to, "body": "keyed", "client_message_id": "contested" });
        async move { house.call(0, &sender, "mailbox_send", message).await }
    });
    for _ in 0..5 {
        let calls = recipients.iter().map(|recipient| (recipient.clone(), "free".to_owned())).collect();
        let began = Instant::now();
        for (_, answer) in send_at_once(&house, &sender, calls).await {
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
    sqlx::raw_sql("rollback").execute(&mut rival).await.unwrap();
    let answer = the_one(contested).await;
    assert_eq!((answer.status, &answer.body["deduplicated"]), (200, &json!(false)), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_stops_inside_a_transaction_freezes_no_other_pod() {
    let cut = Cut::open().await;
    let (sender, stuck, free) = (cut.agent().await, cut.agent().await, cut.agent().await);
    // To the database a pod that hears and says nothing any more is a stopped one.
    cut.proxy.break_at(At::Saying("commit"), How::HoleBefore);
    let stopped = cut.call(&sender, "mailbox_send", letter(&stuck, "from the stopped pod"));
    let others = async {
        until("in a transaction", async || {
            sqlx::query_scalar::<_, bool>(
                "select exists (select from pg_stat_activity
                 where datname = current_database() and state = 'idle in transaction')",
            )
            .fetch_one(&cut.house.db)
            .await
            .unwrap()
        })
        .await;
        let began = Instant::now();
        let beside = cut.house.call(1, &sender, "mailbox_send", letter(&free, "beside")).await;
        assert_eq!(beside.status, 200, "{}", beside.body);
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        let same = cut.house.call(1, &sender, "mailbox_send", letter(&stuck, "the same mailbox")).await;
        assert_eq!(same.status, 200, "{}", same.body);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    };
    let (stopped, ()) = tokio::join!(stopped, others);
    assert_eq!(stopped.status, 200, "{}", stopped.body);
    cut.proxy.heal();
    cut.counters_agree().await;
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_for_30_seconds_is_told_in_time_and_nothing_acknowledged_is_lost() {
    let cut = Arc::new(Cut::open().await);
    let (sender, recipients) = (cut.agent().await, [cut.agent().await, cut.agent().await]);
    cut.proxy.break_for_long(At::Saying("commit"), How::CutBefore);
    let away = Instant::now();
    let mut senders = JoinSet::new();
    for n in 0..16 {
        let (cut, sender, recipient) = (cut.clone(), sender.clone(), recipients[n % 2].clone());
        senders.spawn(async move {
            let (mut acknowledged, mut refused, mut count) = (Vec::new(), 0, 0);
            while away.elapsed() < Duration::from_secs(33) {
                count += 1;
                let body = format!("{n} {count}");
                let arguments =
                    json!({ "recipient_agent_id": recipient.id, "body": body, "client_message_id": body });
                let began = Instant::now();
                let told = cut.call(&sender, "mailbox_send", arguments).await;
                assert!(began.elapsed() < Duration::from_secs(21), "{:?}", began.elapsed());
                match told.status {
                    200 => acknowledged.push(body),
                    _ => refused += 1,
                }
            }
            (acknowledged, refused)
        });
    }
    tokio::time::sleep_until((away + Duration::from_secs(30)).into()).await;
    assert!(cut.proxy.heal());
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    while let Some(done) = senders.join_next().await {
        let (mut some, failures) = done.unwrap();
        acknowledged.append(&mut some);
        refused += failures;
    }
    assert!(refused > 16 && acknowledged.len() > 16, "{refused} refused, {} stored", acknowledged.len());
    let kept: i64 = sqlx::query_scalar("select count(*) from message where body = any($1)")
        .bind(&acknowledged)
        .fetch_one(&cut.house.db)
        .await
        .unwrap();
    assert_eq!(kept, acknowledged.len() as i64);
    cut.counters_agree().await;
    cut.leaves_nothing_open().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_that_dies_ends_the_pod_and_leaves_nobody_waiting() {
    let mut house = roomy().await;
    let agent = house.register().await;
    let agent_id: Uuid = agent.id.parse().unwrap();
    let org_id = sqlx::query_scalar("select org_id from agent where agent_id = $1")
        .bind(agent_id)
        .fetch_one(&house.db)
        .await
        .unwrap();
    let key = Key {
        agent_id,
        namespace: "test",
        key: "deadly".into(),
        fingerprint: [0; 32],
        answer: Box::new(|_| panic!("a fault of the program")),
    };
    let letters = vec![notice(agent_id)];
    let posting = Posting {
        org_id,
        letters,
        acks: None,
        claim: None,
        only_with_ack: false,
        key: Some(key),
        trace: None,
    };
    let poster = house.pods[0].dispatch.poster.clone();
    let told = timeout(AT_ONCE, poster.post(posting)).await.expect("nobody waits for a dead lane");
    assert_eq!(told.unwrap_err().details()["outcome"], "unknown");
    let died = timeout(AT_ONCE, house.pods[0].died()).await.expect("its death is noticed");
    assert!(died.contains("panicked"), "{died}");
}

fn notice(to: Uuid) -> Letter {
    Letter::notice(to, "a notice")
}

/// The answer of a call that waited for what is free by now.
async fn the_one(mut call: JoinSet<Answer>) -> Answer {
    timeout(AT_ONCE, call.join_next()).await.expect("it goes once that is free").unwrap().unwrap()
}

/// A house with one pod and mailboxes without caps.
async fn roomy() -> House {
    House::with_pods(1, Config { caps: Caps { mailbox: 0, sender: 0 }, ..settings() }).await
}

/// The database refuses to store messages with this body: a fault nobody foresaw.
async fn refuse_bodies(house: &House, body: &str) {
    let trigger = format!(
        "create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
         create trigger refuse before insert on message for each row when (new.body = '{body}')
         execute function refuse()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(trigger)).execute(&house.db).await.unwrap();
}

/// A session that holds a mailbox in an open transaction.
async fn holding(house: &House, agent: &Agent) -> PgConnection {
    let mut holder = PgConnection::connect_with(&house.options).await.unwrap();
    sqlx::raw_sql("begin").execute(&mut holder).await.unwrap();
    sqlx::query("select from mailbox where agent_id = $1::text::uuid for update")
        .bind(&agent.id)
        .execute(&mut holder)
        .await
        .unwrap();
    holder
}

async fn send(house: &House, from: &Agent, to: &Agent, body: &str) -> Answer {
    house.call(0, from, "mailbox_send", letter(to, body)).await
}

/// Sends all of these at once, and gives each body with its answer.
async fn send_at_once(
    house: &Arc<House>,
    sender: &Agent,
    calls: Vec<(Agent, String)>,
) -> Vec<(String, Answer)> {
    let mut sending = JoinSet::new();
    for (recipient, body) in calls {
        let (house, sender) = (house.clone(), sender.clone());
        sending.spawn(async move {
            let answer = send(&house, &sender, &recipient, &body).await;
            (body, answer)
        });
    }
    sending.join_all().await
}
