//! Leases: a message is with one run at a time, and with none for ever.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;
use waypost::config::{Caps, Config};

use crate::house::{Agent, Answer, House, settings};
use crate::program::{self, Program};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_racing_runs_share_a_hundred_messages_and_no_message_twice() {
    let (house, worker, sent) = mailbox_with(100).await;
    let claims = (0..50).map(|_| json!({ "run_id": Uuid::new_v4(), "limit": 5 })).collect();
    let answers = claim_at_once(&house, &worker, claims).await;

    let mut batches: Vec<Vec<String>> = answers.iter().map(|answer| served(&answer.body)).collect();
    // Whoever found others' hands on the rest left it; it is still there for the next.
    loop {
        let rest = house.call(0, &worker, "mailbox_claim", json!({ "limit": 5 })).await;
        let rest = served(&rest.body);
        if rest.is_empty() {
            break;
        }
        batches.push(rest);
    }
    let all: Vec<String> = batches.into_iter().flatten().collect();
    assert_eq!(all.len(), sent.len(), "no message is in two runs");
    assert_eq!(all.into_iter().collect::<HashSet<_>>(), sent, "and every message is in one");
    let summary = house.ok(&worker, "mailbox_check", json!({ "since": 0 })).await;
    assert_eq!((&summary["claimed"], &summary["pending"]), (&json!(100), &json!(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_calls_of_one_new_run_are_served_one_and_the_same_batch() {
    let (house, worker, _) = mailbox_with(40).await;
    for _ in 0..4 {
        let run = json!({ "run_id": Uuid::new_v4(), "limit": 10 });
        let answers = claim_at_once(&house, &worker, vec![run; 8]).await;
        assert_eq!(served(&answers[0].body).len(), 10);
        for answer in &answers {
            assert_eq!(answer.body["messages"], answers[0].body["messages"]);
            assert_eq!(answer.body["lease_expires_at"], answers[0].body["lease_expires_at"]);
        }
    }
    let left = house.ok(&worker, "mailbox_claim", json!({})).await;
    assert_eq!(served(&left), Vec::<String>::new(), "four runs of ten hold all forty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_ends_when_the_database_says_so_and_not_before() {
    let (house, worker, sent) = mailbox_with(10).await;
    let run = json!({ "run_id": Uuid::new_v4(), "lease_seconds": 1 });
    let leased = house.call(0, &worker, "mailbox_claim", run.clone()).await.body;
    assert_eq!(served(&leased).len(), sent.len());
    let expires = instant(&leased["lease_expires_at"]);

    let mut early = 0;
    let found = timeout(PATIENCE, async {
        loop {
            let before = database_time(&house).await;
            let again = house.call(0, &worker, "mailbox_claim", run.clone()).await.body;
            let other = house.call(1, &worker, "mailbox_claim", json!({})).await.body;
            let after = database_time(&house).await;
            if !served(&other).is_empty() || after >= expires {
                return (served(&other), instant_or_none(&again["lease_expires_at"]), before, after);
            }
            early += 1;
            assert!(before < expires);
            assert_eq!(served(&again), served(&leased), "the run keeps its batch while the lease lives");
            assert_eq!(again["lease_expires_at"], leased["lease_expires_at"], "which is not made longer");
        }
    });
    let (other, again, _, after) = found.await.unwrap();
    assert!(early > 0, "the lease lived for a while");
    assert!(after >= expires, "nobody was served before the database's clock said so");
    // At the end either the same run took a new lease or the other run did, never both.
    assert!(other.is_empty() || again.is_none_or(|until| until == expires));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_pod_had_leased_is_served_by_another_once_the_lease_is_over() {
    let (house, worker, sent) = mailbox_with(30).await;
    let folder = program::folder();
    let pod = Program::start(program::command_on(&house.options, folder.path())).await;
    let leased = pod.call(&worker, "mailbox_claim", json!({ "lease_seconds": 2 })).await;
    assert_eq!(served(&leased.body).len(), 30, "{}", leased.body);
    let expires = instant(&leased.body["lease_expires_at"]);
    pod.kill().await;

    let rescued = timeout(PATIENCE, async {
        loop {
            let claimed = house.call(1, &worker, "mailbox_claim", json!({})).await;
            let claimed = served(&claimed.body);
            if !claimed.is_empty() {
                return claimed;
            }
        }
    });
    let rescued = rescued.await.unwrap();
    assert!(database_time(&house).await >= expires);
    assert_eq!(rescued.len(), sent.len());
    assert_eq!(rescued.iter().cloned().collect::<HashSet<_>>(), sent);
    let acked = house.ok(&worker, "mailbox_ack", json!({ "message_ids": rescued })).await;
    assert_eq!(acked["acked"], 30);
}

/// Two pods and a mailbox that holds so many messages and no notice; the messages' ids.
async fn mailbox_with(count: usize) -> (Arc<House>, Agent, HashSet<String>) {
    let config = Config { caps: Caps { mailbox: 0, sender: 0 }, ..settings() };
    let house = House::with_pods(2, config).await;
    let (sender, worker) = (house.register().await, house.register().await);
    let notice = served(&house.ok(&worker, "mailbox_check", json!({})).await);
    house.ok(&worker, "mailbox_ack", json!({ "message_ids": notice })).await;
    let mut sent = HashSet::new();
    for _ in 0..count {
        sent.insert(crate::house::send(&house, &sender, &worker, "work").await);
    }
    (Arc::new(house), worker, sent)
}

/// Claims at the same moment, on both pods.
async fn claim_at_once(house: &Arc<House>, worker: &Agent, claims: Vec<Value>) -> Vec<Answer> {
    let gate = Arc::new(Barrier::new(claims.len()));
    let mut racing = JoinSet::new();
    for (place, claim) in claims.into_iter().enumerate() {
        let (house, gate, worker) = (house.clone(), gate.clone(), worker.clone());
        racing.spawn(async move {
            gate.wait().await;
            house.call(place % 2, &worker, "mailbox_claim", claim).await
        });
    }
    let answers = timeout(PATIENCE, racing.join_all()).await.unwrap();
    assert!(answers.iter().all(|answer| answer.status == 200));
    answers
}

/// The ids of the messages in an answer.
fn served(answer: &Value) -> Vec<String> {
    let messages = answer["messages"].as_array().unwrap_or_else(|| panic!("{answer}"));
    messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

async fn database_time(house: &House) -> OffsetDateTime {
    sqlx::query_scalar("select clock_timestamp()").fetch_one(&house.db).await.unwrap()
}

fn instant(value: &Value) -> OffsetDateTime {
    instant_or_none(value).unwrap_or_else(|| panic!("{value}"))
}

fn instant_or_none(value: &Value) -> Option<OffsetDateTime> {
    use time::format_description::well_known::Rfc3339;
    OffsetDateTime::parse(value.as_str()?, &Rfc3339).ok()
}
