//! Whatever breaks: every message is told of at least once, or its endpoint is disabled and the agent told.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;
use waypost::config::{Caps, Config};
use waypost::inbox::{Letter, Posting};

use super::receiver::{Manners, Notice, Receiver, authority};
use super::{active, believing, set, shown, system_notices, told, with_endpoint};
use crate::house::{Agent, House, send, until};
use crate::program::{self, Program};

/// A lease whose pod lost its word on it ends by itself; a test need not wait for that.
pub const SOON: &str =
    "lease_until = case when lease is not null then least(lease_until, now() + interval '1 second') end,
    due_at = case when due_at is not null then least(due_at, now() + interval '1 second') end";

/// Every id that a path was told of.
fn told_of(receiver: &Receiver, path: &str) -> HashSet<String> {
    receiver.notices(path).iter().flat_map(Notice::ids).collect()
}

#[tokio::test]
async fn mail_that_comes_while_a_notice_is_under_way_is_told_of_by_the_next_one() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    for round in 1..6 {
        receiver.behave("/a", Manners::Slow(100));
        send(&house, &peer, &agent, "first").await;
        until("under way", async || receiver.notices("/a").len() == 2 * round).await;
        let second = send(&house, &peer, &agent, "second").await;
        timeout(
            Duration::from_secs(5),
            until("told of both", async || told_of(&receiver, "/a").contains(&second)),
        )
        .await
        .expect("within seconds");
        until("written down", async || super::due(&house, &agent).await.is_none()).await;
    }
}

/// As if the lease had run out and somebody else were at it, for long.
const THEIRS: &str =
    "lease = gen_random_uuid(), lease_until = now() + interval '1 hour', due_at = now() + interval '1 hour'";

#[tokio::test]
async fn whoever_lost_the_lease_changes_nothing_whatever_the_endpoint_said() {
    let (house, receiver) = with_endpoint().await;
    let peer = house.register().await;
    for status in [200, 500, 410] {
        let path = format!("/{status}");
        let agent = told(&house, &receiver, &path).await;
        receiver.behave(&path, Manners::SlowStatus(300, status));
        send(&house, &peer, &agent, "hello").await;
        until("under way", async || receiver.notices(&path).len() == 2).await;
        set(&house, &agent, THEIRS).await;
        let before = row(&house, &agent).await;
        a_later_call_has_ended(&house, &receiver, &peer, &format!("{path}/later")).await;
        assert_eq!(row(&house, &agent).await, before, "{status}");
        assert_eq!(system_notices(&house, &agent).await.len(), 1, "{status}: only the welcome");
        receiver.behave(&path, Manners::Fine);
        set(&house, &agent, "lease_until = now(), due_at = now()").await;
        until("told again", async || receiver.notices(&path).len() == 3).await;
        let notices = receiver.notices(&path);
        let ids = [1, 2].map(|place: usize| notices[place].header("webhook-id").to_owned());
        assert_eq!(ids[0], ids[1], "so that a receiver drops it");
    }
}

#[tokio::test]
async fn whoever_lost_the_lease_of_a_verification_leaves_that_of_another_alone() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (house.register().await, house.register().await);
    receiver.behave("/a", Manners::SlowStatus(300, 404));
    super::hook(&house, &agent, &receiver.url("/a")).await;
    until("asked", async || receiver.requests().len() == 1).await;
    set(&house, &agent, THEIRS).await;
    let lease = async || {
        let row = row(&house, &agent).await;
        ["lease", "lease_until", "due_at"].map(|column| row[column].clone())
    };
    let before = lease().await;
    a_later_call_has_ended(&house, &receiver, &peer, "/later").await;
    assert_eq!(lease().await, before);
}

/// Has another webhook told by a call that takes longer than those under way.
async fn a_later_call_has_ended(house: &House, receiver: &Receiver, peer: &Agent, path: &str) {
    let other = told(house, receiver, path).await;
    receiver.behave(path, Manners::Slow(600));
    send(house, peer, &other, "hello").await;
    until("a later call", async || receiver.notices(path).len() == 2).await;
    until("and was written down", async || super::due(house, &other).await.is_none()).await;
}

async fn row(house: &House, agent: &Agent) -> serde_json::Value {
    sqlx::query_scalar("select to_jsonb(w) from webhook w where agent_id = $1::text::uuid")
        .bind(&agent.id)
        .fetch_one(&house.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_senders_on_two_pods_leave_no_message_untold() {
    let caps = Caps { mailbox: 0, sender: 0 };
    let house = House::with_pods(2, Config { caps, ..believing() }).await;
    let receiver = Receiver::open().await;
    let mut agents = Vec::new();
    for number in 0..3 {
        let agent = house.register().await;
        active(&house, &agent, &receiver.url(&format!("/{number}"))).await;
        agents.push(agent);
    }
    let peer = house.register().await;
    let (house, peer) = (&house, &peer);
    let sending = (0..6).flat_map(|sender| agents.iter().map(move |agent| (sender, agent)));
    let sending = sending.map(async |(sender, agent)| {
        let mut ids = Vec::new();
        for _ in 0..25 {
            let letter = json!({ "recipient_agent_id": agent.id, "body": "x" });
            let sent = house.call(sender % 2, peer, "mailbox_send", letter).await;
            assert_eq!(sent.status, 200, "{}", sent.body);
            ids.push(sent.body["message_id"].as_str().unwrap().to_owned());
        }
        ids.len()
    });
    let sent: usize = join_all(sending).await.into_iter().sum();
    assert_eq!(sent, 450);
    // A notice names twenty and counts the rest: the cursor tells up to where.
    for number in 0..agents.len() {
        let path = format!("/{number}");
        let told = async || receiver.notices(&path).iter().any(|notice| notice.json()["cursor"] == 151);
        until("told of the last one", told).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_an_endpoint_misbehaves_it_is_told_in_the_end_or_disabled_with_a_notice() {
    let (house, receiver) = with_endpoint().await;
    let peer = house.register().await;
    let all = [
        Manners::Status(500),
        Manners::Status(401),
        Manners::Redirects,
        Manners::Babbles,
        Manners::HangsUp,
        Manners::Hangs,
        Manners::Huge,
        Manners::Drips,
        Manners::Status(410),
    ];
    let mut cases = Vec::new();
    for (number, manners) in all.into_iter().enumerate() {
        let path = format!("/{number}");
        let agent = told(&house, &receiver, &path).await;
        receiver.behave(&path, manners);
        let id = send(&house, &peer, &agent, "hello").await;
        cases.push((agent, path, id, manners));
    }
    for (agent, path, id, manners) in cases {
        // A status that says yes is enough: what comes behind it is nobody's business.
        let seen = async || {
            let shown = shown(&house, &agent).await;
            shown["last_failure_at"].is_string() || super::due(&house, &agent).await.is_none()
        };
        until("called", seen).await;
        if manners == Manners::Redirects {
            assert_eq!(shown(&house, &agent).await["last_failure_reason"], "redirected");
        }
        receiver.behave(&path, Manners::Fine);
        if shown(&house, &agent).await["state"] == "disabled" {
            assert_eq!(system_notices(&house, &agent).await.len(), 2);
            continue;
        }
        set(&house, &agent, "due_at = case when due_at is null then null else now() end").await;
        until("told", async || super::due(&house, &agent).await.is_none()).await;
        assert!(told_of(&receiver, &path).contains(&id), "{path}");
        assert_eq!(shown(&house, &agent).await["state"], "active");
    }
    let is_followed = |request: &String| request.contains("elsewhere");
    assert!(!receiver.requests().iter().any(is_followed), "a redirect was followed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_killed_while_it_calls_leaves_its_call_to_another() {
    let (house, receiver) = (House::empty().await, Receiver::open().await);
    let folder = program::folder();
    let pod = async |name: &str| {
        let mut command = program::command_on(&house.options, &folder.path().join(name));
        command.env("WAYPOST_EGRESS_CA", authority()).env("WAYPOST_UNSAFE_EGRESS", "loopback");
        Program::start(command).await
    };
    let first = pod("first").await;
    let (agent, peer) = (first.register().await, first.register().await);
    let arguments = json!({ "url": receiver.url("/a"), "secret": "s" });
    assert_eq!(first.call(&agent, "webhook_register", arguments).await.status, 200);
    until("told of the welcome", async || receiver.notices("/a").len() == 1).await;
    until("written down", async || super::due(&house, &agent).await.is_none()).await;
    receiver.behave("/a", Manners::Hangs);
    let letter = json!({ "recipient_agent_id": agent.id, "body": "hello" });
    let sent = first.call(&peer, "mailbox_send", letter).await;
    until("under way", async || receiver.notices("/a").len() == 2).await;
    first.kill().await;
    receiver.behave("/a", Manners::Fine);
    let second = pod("second").await;
    // Its lease ends by itself; the test need not wait for that.
    set(&house, &agent, "lease_until = now(), due_at = now()").await;
    until("told by the other", async || receiver.notices("/a").len() == 3).await;
    let notices = receiver.notices("/a");
    assert!(notices[2].ids().contains(&sent.body["message_id"].as_str().unwrap().to_owned()));
    assert_eq!(notices[1].header("webhook-id"), notices[2].header("webhook-id"));
    second.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_database_ends_every_session_again_and_again_no_message_stays_untold() {
    let house = House::with_pods(2, believing()).await;
    let receiver = Receiver::open().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    let mut ids = Vec::new();
    for number in 0..9 {
        let letter =
            json!({ "recipient_agent_id": agent.id, "body": "x", "client_message_id": number.to_string() });
        let sent = async || {
            let answer = house.call(number % 2, &peer, "mailbox_send", letter.clone()).await;
            answer.body["message_id"].as_str().map(str::to_owned)
        };
        let mut id = None;
        until("sent", async || {
            id = sent().await;
            id.is_some()
        })
        .await;
        ids.extend(id);
        let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                   where datname = current_database() and pid <> pg_backend_pid() and application_name = 'waypost'";
        let _: i64 = sqlx::query_scalar(end).fetch_one(&house.db).await.unwrap();
        // A lease whose pod lost its word on it ends by itself; the test need not wait for that.
        set(&house, &agent, SOON).await;
    }
    let is_told = async || ids.iter().all(|id| told_of(&receiver, "/a").contains(id));
    until("told of all", async || {
        set(&house, &agent, SOON).await;
        is_told().await
    })
    .await;
}

#[tokio::test]
async fn mail_that_is_not_committed_when_a_failing_endpoint_recovers_is_told_of_all_the_same() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    receiver.behave("/a", Manners::Status(500));
    send(&house, &peer, &agent, "first").await;
    until("failing", async || shown(&house, &agent).await["state"] == "failing").await;
    receiver.behave("/a", Manners::Slow(1_000));
    set(&house, &agent, "due_at = now()").await;
    until("under way", async || receiver.notices("/a").len() == 3).await;
    let mut db = PgConnection::connect_with(&house.options).await.unwrap();
    sqlx::raw_sql("begin").execute(&mut db).await.unwrap();
    let org_id = sqlx::query_scalar("select org_id from organization").fetch_one(&mut db).await.unwrap();
    let letter = letter(&agent);
    let second = letter.message_id.to_string();
    let posting = Posting {
        org_id,
        letters: vec![letter],
        acks: None,
        claim: None,
        only_with_ack: false,
        key: None,
        trace: None,
    };
    let caps = Caps { mailbox: 0, sender: 0 };
    waypost::inbox::post_alone(&mut db, caps, posting).await.unwrap();
    // What it writes down waits for our commit; did it not, it would look again now and find nothing.
    let waits = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')";
    until("written down, or about to", async || {
        let waits: bool = sqlx::query_scalar(waits).fetch_one(&house.db).await.unwrap();
        waits || super::due(&house, &agent).await.is_none()
    })
    .await;
    sqlx::raw_sql("commit").execute(&mut db).await.unwrap();
    until("told of the second", async || told_of(&receiver, "/a").contains(&second)).await;
}

fn letter(agent: &Agent) -> Letter {
    Letter::notice(agent.id.parse().unwrap(), "second")
}
