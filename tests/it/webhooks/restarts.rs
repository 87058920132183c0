//! Postgres goes away in the middle of it: every message that is stored is told of all the same.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::Row as _;
use waypost::config::{Caps, Config};

use super::faults::SOON;
use super::receiver::{Manners, Receiver};
use super::{believing, told};
use crate::house::outage::{End, two_pods_on_their_own_server};
use crate::house::{Agent, House, send, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_and_crashes_of_postgres_while_notices_are_under_way_leave_no_message_untold() {
    let caps = Caps { mailbox: 0, sender: 0 };
    let (mut server, house) = two_pods_on_their_own_server(Config { caps, ..believing() }).await;
    let receiver = Receiver::open().await;
    let mut agents = Vec::new();
    for path in ["/0", "/1", "/2"] {
        agents.push(told(&house, &receiver, path).await);
        receiver.behave(path, Manners::Slow(20));
    }
    let mut quiet = Vec::new();
    for number in 0..10 {
        quiet.push(told(&house, &receiver, &quiet_path(number)).await);
    }
    let peer = house.register().await;
    for end in [End::Stop, End::KillAll, End::KillOne] {
        let is_back = AtomicBool::new(false);
        let sending = join_all(
            (0..9).map(|place| send_until_back(&house, place % 2, &peer, &agents[place % 3], &is_back)),
        );
        let restarting = async {
            let enough = receiver.all().len() + 9;
            until("notices are under way", async || receiver.all().len() >= enough).await;
            let heard = begin_to_fail(&house, &receiver, &peer, &quiet).await;
            server.bring_down(&house, end).await;
            is_back.store(true, Ordering::Relaxed);
            heard
        };
        let (_, heard) = tokio::join!(sending, restarting);
        (0..quiet.len()).for_each(|number| receiver.behave(&quiet_path(number), Manners::Fine));
        until("tried again", async || {
            soon(&house).await;
            let is_tried = |number: usize| receiver.notices(&quiet_path(number)).len() > heard[number];
            (0..quiet.len()).all(is_tried)
        })
        .await;
        until("written down", async || {
            soon(&house).await;
            let due = "select count(due_at) from webhook";
            sqlx::query_scalar::<_, i64>(due).fetch_one(&house.db).await.unwrap() == 0
        })
        .await;
        for (agent, path) in agents.iter().zip(["/0", "/1", "/2"]) {
            until("told of all", async || {
                soon(&house).await;
                untold(&house, &receiver, agent, path).await.is_empty()
            })
            .await;
        }
    }
    drop(house);
    server.stop().await;
}

/// Has calls under way that fail one after the other, some of them while nobody can write that down. No more mail
/// comes that would make these webhooks due. Tells how many notices each of them has heard.
async fn begin_to_fail(house: &House, receiver: &Receiver, peer: &Agent, quiet: &[Agent]) -> Vec<usize> {
    let mut heard = Vec::new();
    for (number, agent) in quiet.iter().enumerate() {
        let pause = 200 + 100 * number as u64;
        receiver.behave(&quiet_path(number), Manners::SlowStatus(pause, 500));
        heard.push(receiver.notices(&quiet_path(number)).len() + 1);
        send(house, peer, agent, "x").await;
    }
    let is_called = |number: usize| receiver.notices(&quiet_path(number)).len() >= heard[number];
    until("called", async || (0..quiet.len()).all(is_called)).await;
    heard
}

fn quiet_path(number: usize) -> String {
    format!("/quiet/{number}")
}

/// Sends one message after the other until Postgres is back and three more are stored.
async fn send_until_back(house: &House, pod: usize, from: &Agent, to: &Agent, is_back: &AtomicBool) {
    let mut more = 3;
    while more > 0 {
        let letter = json!({ "recipient_agent_id": to.id, "body": "x" });
        let answer = house.call(pod, from, "mailbox_send", letter).await;
        assert!(matches!(answer.status, 200 | 503), "{}: {}", answer.status, answer.body);
        more -= usize::from(is_back.load(Ordering::Relaxed) && answer.status == 200);
    }
}

/// A lease whose pod lost its word on it ends by itself; a test need not wait for that.
async fn soon(house: &House) {
    let hurry = format!("update webhook set {SOON}");
    sqlx::query(sqlx::AssertSqlSafe(hurry)).execute(&house.db).await.unwrap();
}

/// The seqs of stored messages that no notice tells of: one tells of all from its first envelope to its cursor.
async fn untold(house: &House, receiver: &Receiver, agent: &Agent, path: &str) -> Vec<i64> {
    let read = "select message_id::text, seq from inbox_entry where agent_id = $1::text::uuid order by seq";
    let rows = sqlx::query(read).bind(&agent.id).fetch_all(&house.db).await.unwrap();
    let stored: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let seq = |id: &Value| stored.iter().find(|(of, _)| id == of.as_str()).map(|(_, seq)| *seq);
    let told: Vec<(i64, i64)> = receiver
        .notices(path)
        .iter()
        .map(|notice| notice.json())
        .map(|notice| (seq(&notice["envelopes"][0]["id"]), notice["cursor"].as_i64()))
        .map(|(first, cursor)| (first.expect("what is told of is stored"), cursor.unwrap()))
        .collect();
    let is_told = |seq: i64| told.iter().any(|(first, cursor)| (*first..=*cursor).contains(&seq));
    stored.iter().map(|(_, seq)| *seq).filter(|seq| !is_told(*seq)).collect()
}
