//! The real program: how pods start, are refused, drain, die and come back.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;
use waypost::config::Config;

use crate::house::{House, last_poll, polled_since, settings};
use crate::program::{self, Program};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_pods_started_at_once_on_an_empty_database_all_serve() {
    let mut house = House::empty().await;
    let name = format!("t_{}", Uuid::new_v4().simple());
    let create = format!("create database {name} template template0");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&house.db).await.unwrap();
    house.options = house.options.database(&name);
    let folder = program::folder();
    let mut starting = JoinSet::new();
    for number in 0..8 {
        let mut command = program::command_on(&house.options, &folder.path().join(number.to_string()));
        command.env("WAYPOST_POOL", "2");
        starting.spawn(Program::start(command));
    }
    let pods = timeout(PATIENCE, starting.join_all()).await.unwrap();

    // Each serves, and each knows what the others did.
    let mut agents = Vec::new();
    for pod in &pods {
        assert_eq!(pod.status(&pod.url, "/readyz").await, Some(200));
        assert_eq!(pod.status(&pod.ops, "/metrics").await, Some(200));
        agents.push(pod.register().await);
    }
    for (pod, agent) in pods.iter().rev().zip(&agents) {
        let known = pod.call(agent, "who_am_i", json!({})).await;
        assert_eq!((known.status, &known.body["agent_name"]), (200, &json!(agent.name)));
    }
    for pod in pods {
        pod.signal(Signal::SIGTERM);
        assert_eq!(pod.ended().await.status.code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_fails_readiness_first_then_answers_held_reads_and_exits_with_zero() {
    let house = House::empty().await;
    let folder = program::folder();
    let mut command = program::command_on(&house.options, folder.path());
    command.env("WAYPOST_DRAIN_DELAY", "1");
    let pod = Program::start(command).await;
    let agent = pod.register().await;
    let cursor = pod.call(&agent, "mailbox_check", json!({})).await.body["next_since"].clone();
    let before = last_poll(&house, &agent).await;
    let held = pod.call(&agent, "mailbox_check", json!({ "since": cursor, "wait": 25 }));
    let term = async {
        polled_since(&house, &agent, before).await;
        assert_eq!(pod.status(&pod.url, "/readyz").await, Some(200));
        pod.signal(Signal::SIGTERM);
        let told = Instant::now();
        while pod.status(&pod.url, "/readyz").await == Some(200) {}
        // Not ready, and still serving whoever has not heard of it.
        assert_eq!(pod.status(&pod.url, "/readyz").await, Some(503));
        assert_eq!(pod.status(&pod.url, "/livez").await, Some(200));
        assert_eq!(pod.call(&agent, "who_am_i", json!({})).await.status, 200);
        assert!(told.elapsed() < Duration::from_secs(1), "all of it within the delay");
        told
    };
    let (held, told) = timeout(PATIENCE, async { tokio::join!(held, term) }).await.unwrap();
    assert_eq!((held.status, &held.body["messages"]), (200, &json!([])), "{}", held.body);
    assert_eq!(held.body["next_since"], cursor);
    assert!(told.elapsed() >= Duration::from_secs(1), "held reads are kept for the delay");
    let ended = pod.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(told.elapsed() < Duration::from_secs(20));
    assert_eq!(ended.more, "", "standard output has its two lines and no more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_cluster_is_one_pods_own_and_outlives_its_killing() {
    let folder = program::folder();
    let pod = Program::start(program::command(folder.path())).await;
    let (sender, recipient) = (pod.register().await, pod.register().await);
    let sent = pod
        .call(&sender, "mailbox_send", json!({ "recipient_agent_id": recipient.id, "body": "kept" }))
        .await;
    assert_eq!(sent.status, 200);

    let second = program::run(program::command(folder.path())).await;
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!((second.status.code(), said.trim().lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("DATABASE_URL="), "{said}");
    assert!(second.stdout.is_empty());

    let mut chore = program::command(folder.path());
    chore.args(["org", "create", "acme", "--registration", "closed"]);
    let made = program::run(chore).await;
    let printed: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made.status.success());
    assert_eq!((&printed["slug"], &printed["registration"]), (&json!("acme"), &json!("closed")));
    assert!(printed["org_id"].is_string());

    pod.kill().await;
    let pod = Program::start(program::command(folder.path())).await;
    let found = pod.call(&recipient, "mailbox_check", json!({})).await;
    let bodies = found.body["messages"].as_array().unwrap().iter();
    assert!(bodies.clone().any(|message| message["id"] == sent.body["message_id"]), "{}", found.body);
    pod.signal(Signal::SIGINT);
    let ended = pod.ended().await;
    assert_eq!((ended.status.code(), ended.more.as_str()), (Some(0), ""), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_setting_stops_the_start_and_the_nearest_is_named() {
    let folder = program::folder();
    let mut command = program::command(folder.path());
    command.env("WAYPOST_CAP_SENDERS", "10");
    let refused = program::run(command).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("WAYPOST_CAP_SENDERS") && said.contains("nearest one is WAYPOST_CAP_SENDER."),
        "{said}"
    );
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(refused.stdout.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_may_lose_what_it_acknowledged_is_refused() {
    let house = House::empty().await;
    let name = house.options.get_database().unwrap();
    let alter = format!("alter database {name} set synchronous_commit = off");
    sqlx::raw_sql(AssertSqlSafe(alter)).execute(&house.db).await.unwrap();
    let folder = program::folder();
    let refused = program::run(program::command_on(&house.options, folder.path())).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("synchronous_commit") && said.contains("--unsafe-durability"), "{said}");

    let mut accepted = program::command_on(&house.options, folder.path());
    accepted.arg("--unsafe-durability");
    let pod = Program::start(accepted).await;
    assert_eq!(pod.status(&pod.url, "/readyz").await, Some(200));
    pod.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_its_database_has_no_room_for_is_refused() {
    let house = House::empty().await;
    let folder = program::folder();
    let mut crowded = program::command_on(&house.options, folder.path());
    crowded.env("WAYPOST_POOL", "1000");
    let refused = program::run(crowded).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("uses 1011 connections") && said.contains("max_connections"), "{said}");

    // Each of these two has room, and both together have not.
    let most: i32 = sqlx::query_scalar("select current_setting('max_connections')::int")
        .fetch_one(&house.db)
        .await
        .unwrap();
    let mut pods = Vec::new();
    for name in ["one", "two"] {
        let mut wide = program::command_on(&house.options, &folder.path().join(name));
        wide.env("WAYPOST_POOL", (most / 2).to_string());
        pods.push(Program::start(wide).await);
    }
    for (pod, is_told) in pods.into_iter().zip([false, true]) {
        pod.signal(Signal::SIGTERM);
        let said = pod.ended().await.stderr;
        assert_eq!(said.contains("too few connections for all pods"), is_told, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_the_operator_revoked_is_refused_by_running_pods_within_a_second() {
    let house = House::with_pods(2, settings()).await;
    let agent = house.register().await;
    let own = house.ok(&agent, "who_am_i", json!({})).await;
    let key_id = own["session_id"].as_str().unwrap();
    let folder = program::folder();
    let mut chore = program::command_on(&house.options, folder.path());
    chore.args(["key", "revoke", "--org", "public", key_id]);

    let cursor = house.ok(&agent, "mailbox_check", json!({})).await["next_since"].clone();
    let before = last_poll(&house, &agent).await;
    let held = house.call(0, &agent, "mailbox_check", json!({ "since": cursor, "wait": 25 }));
    let revoking = async {
        polled_since(&house, &agent, before).await;
        // Both pods know the key by heart at this moment.
        for pod in [0, 1] {
            assert_eq!(house.call(pod, &agent, "who_am_i", json!({})).await.status, 200);
        }
        let done = program::run(chore).await;
        assert!(done.status.success());
        let revoked = Instant::now();
        for pod in [0, 1] {
            while house.call(pod, &agent, "who_am_i", json!({})).await.status != 401 {
                assert!(revoked.elapsed() < Duration::from_secs(1));
            }
        }
        revoked
    };
    let (held, revoked) = timeout(PATIENCE, async { tokio::join!(held, revoking) }).await.unwrap();
    assert_eq!(held.status, 401, "{}", held.body);
    let message = held.body["message"].as_str().unwrap();
    assert!(message.contains("revoked") && message.contains("renew_agent_key"), "{message}");
    assert!(revoked.elapsed() < Duration::from_secs(2), "its held read ends too: {:?}", revoked.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_on_a_shared_database_needs_the_key_that_its_others_have_and_a_chore_needs_none() {
    let house = House::empty().await;
    let folder = program::folder();
    let without = |name: &str| {
        let mut command = program::command_on(&house.options, &folder.path().join(name));
        command.env_remove("WAYPOST_SECRET_KEY");
        command
    };
    let refused = program::run(without("one")).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("WAYPOST_SECRET_KEY") && said.contains("openssl rand -base64 32"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    let mut chore = without("one");
    chore.args(["org", "list"]);
    assert!(program::run(chore).await.status.success());

    let pod = Program::start(program::command_on(&house.options, &folder.path().join("one"))).await;
    let mut other = without("two");
    other.env("WAYPOST_SECRET_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let refused = program::run(other).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("is not the one this database was set up with"), "{said}");
    pod.kill().await;

    // The key file of a data dir does as well.
    let key = BASE64.encode(crate::house::SECRET_KEY);
    std::fs::create_dir_all(folder.path().join("three")).unwrap();
    std::fs::write(folder.path().join("three/secret.key"), key).unwrap();
    Program::start(without("three")).await.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_at_its_limit_although_a_call_is_stuck() {
    let drain_limit = Duration::from_secs(2);
    let mut house = House::with_pods(1, Config { drain_limit, ..settings() }).await;
    let (sender, recipient) = (house.register().await, house.register().await);
    let mut lock = house.db.acquire().await.unwrap();
    sqlx::raw_sql("begin").execute(&mut *lock).await.unwrap();
    sqlx::query("select from mailbox where agent_id = $1::text::uuid for update")
        .bind(&recipient.id)
        .execute(&mut *lock)
        .await
        .unwrap();
    let url = format!("{}/api/v1/tools/mailbox_send", house.url(0));
    let message = json!({ "recipient_agent_id": recipient.id, "body": "stuck" });
    let stuck = house.http().post(url).bearer_auth(&sender.key).json(&message).send();
    let pod = house.pods.remove(0);
    let draining = async {
        while waiting_for_locks(&house).await == 0 {}
        let began = Instant::now();
        pod.drain().await;
        began.elapsed()
    };
    let (answer, took) = timeout(PATIENCE, async { tokio::join!(stuck, draining) }).await.unwrap();
    assert!(answer.is_err(), "its connection was cut");
    assert!((drain_limit..drain_limit + Duration::from_secs(1)).contains(&took), "{took:?}");
}

async fn waiting_for_locks(house: &House) -> i64 {
    sqlx::query_scalar(
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    .fetch_one(&house.db)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_letter_stored_is_counted_and_nothing_else() {
    let house = House::empty().await;
    let folder = program::folder();
    let pod = Program::start(program::command_on(&house.options, folder.path())).await;
    let (sender, recipient) = (pod.register().await, pod.register().await);
    let message = json!({ "recipient_agent_id": recipient.id, "body": "one", "client_message_id": "one" });
    for _ in 0..2 {
        assert_eq!(pod.call(&sender, "mailbox_send", message.clone()).await.status, 200);
    }
    let scraped = reqwest::get(format!("{}/metrics", pod.ops)).await.unwrap().text().await.unwrap();
    let counted = scraped.lines().find(|line| line.starts_with("waypost_messages_posted_total "));
    assert_eq!(counted, Some("waypost_messages_posted_total 3"), "two welcomes and a message");
    pod.kill().await;
}
