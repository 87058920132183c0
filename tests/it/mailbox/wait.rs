//! `wait`: held until mail arrives on whichever pod, clamped, bounded in number, and free of database connections.

use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Value, json};
use waypost::config::Config;

use super::{bodies, ids, mail, number, settled, two_pods};
use crate::house::{Agent, House, send, settings, until};

const POLLS: &str = "select count(*) from poll where agent_id = $1";

fn hold() -> Value {
    json!({ "since": 1, "wait": 25 })
}

#[tokio::test]
async fn the_wait_is_clamped_and_told() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    send(&house, &ada, &bob, "mail").await;
    for (asked, applied) in [
        (json!(-5), 0),
        (json!(99), 25),
        (json!("3"), 3),
        (json!("-1"), 0),
        (json!(1e30), 25),
        (Value::Null, 0),
    ] {
        let checked = house.ok(&bob, "mailbox_check", json!({ "wait": asked })).await;
        assert_eq!(
            (&checked["wait_applied"], &checked["waited_ms"]),
            (&json!(applied), &json!(0)),
            "{asked}"
        );
        assert_eq!(ids(&checked["messages"]).len(), 2, "mail that is there is not waited for");
    }
    let exponent = house.http().post(format!("{}/api/v1/tools/mailbox_check", house.url(0)));
    let exponent = exponent.header("content-type", "application/json").body(r#"{"since":2,"wait":1e0}"#);
    let held = house.send(exponent, Some(&bob.key)).await.body;
    assert_eq!(
        (&held["wait_applied"], &held["messages"], &held["next_since"]),
        (&json!(1), &json!([]), &json!(2))
    );
    let waited = held["waited_ms"].as_u64().unwrap();
    assert!((1000..10_000).contains(&waited), "{waited}");
    assert_eq!(held["retry_after"], 0, "held already: call again at once");
    let query = house.get(0, "/api/v1/mailbox/messages?since=0&wait=99", Some(&bob.key)).await;
    assert_eq!(query.body["wait_applied"], 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_held_on_the_other_pod_wakes_within_half_a_second() {
    let house = two_pods().await;
    let ada = house.register().await;
    for (pod, bob) in house.register_many(6).await.iter().enumerate() {
        let held = async { (house.call(pod % 2, bob, "mailbox_check", hold()).await, Instant::now()) };
        let sending = async {
            until("it is held", async || number(&house, bob, POLLS).await == 1).await;
            send(&house, &ada, bob, "wake up").await;
            Instant::now()
        };
        let ((held, woke), sent) = tokio::join!(held, sending);
        assert_eq!(bodies(&held.body["messages"]), ["wake up"], "{}", held.body);
        let took = woke.saturating_duration_since(sent);
        assert!(took < Duration::from_millis(500), "{took:?} on pod {}", pod % 2);
        assert_eq!(held.body["next_since"], 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_and_a_probe_wake_a_held_read_too() {
    let house = two_pods().await;
    let [ada, bob, carol] = house.register_many(3).await.try_into().unwrap();
    let id = send(&house, &ada, &carol, "question").await;
    let wakes: [(&str, &Agent); 2] = [("reply", &ada), ("probe", &bob)];
    for (what, agent) in wakes {
        let held = house.call(1, agent, "mailbox_check", hold());
        let (held, _) = tokio::join!(held, async {
            until("it is held", async || number(&house, agent, POLLS).await == 1).await;
            match what {
                "reply" => {
                    _ = house
                        .ok(&carol, "mailbox_ack", json!({ "message_ids": [id], "reply_text": "answer" }))
                        .await
                }
                _ => {
                    let path = format!("/agents/{}/probe", agent.id);
                    super::owned(&house, 0, &agent.owner_key, reqwest::Method::POST, &path, json!({})).await;
                }
            }
        });
        assert_eq!(ids(&held.body["messages"]).len(), 1, "{what} {}", held.body);
        assert!(held.body["waited_ms"].as_u64().unwrap() < 20_000, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_reads_hold_no_database_connection() {
    let house = House::with_pods(1, Config { pool: 2, ..settings() }).await;
    let ada = settled(&house).await;
    let agents = house.register_many(10).await;
    let holding = join_all(agents.iter().map(|agent| house.call(0, agent, "mailbox_check", hold())));
    let serving = async {
        for agent in &agents {
            until("all are held", async || number(&house, agent, POLLS).await == 1).await;
        }
        let began = Instant::now();
        for _ in 0..20 {
            send(&house, &ada, &ada, "served meanwhile").await;
            house.ok(&ada, "mailbox_claim", json!({})).await;
            until("acked", async || {
                let mine = mail(&house, &ada).await.pop().unwrap();
                house.ok(&ada, "mailbox_ack", json!({ "message_ids": [mine["id"]] })).await["acked"] == 1
            })
            .await;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        for agent in &agents {
            send(&house, &ada, agent, "done").await;
        }
    };
    let (held, ()) = tokio::join!(holding, serving);
    assert!(held.iter().all(|held| bodies(&held.body["messages"]) == ["done"]), "{:?}", held[0].body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hold_too_many_is_refused_and_a_place_that_is_given_back_can_be_taken() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let mut reads: FuturesUnordered<_> =
        (0..5).map(|_| house.call(0, &bob, "mailbox_check", hold())).collect();
    // Four are held and do not answer: the first to answer is the one too many.
    let refused = reads.next().await.unwrap();
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("too_many_holds")), "{}", refused.body);
    assert_eq!(refused.body["retryable"], true);
    let seconds = refused.body["details"]["retry_after"].as_u64().unwrap();
    assert_eq!(refused.headers["retry-after"], seconds.to_string());
    assert_eq!(
        house.ok(&bob, "mailbox_check", json!({ "since": 1 })).await["messages"],
        json!([]),
        "not held, so served"
    );
    // Mail that is there needs no place.
    assert_eq!(ids(&house.ok(&bob, "mailbox_check", json!({ "wait": 25 })).await["messages"]).len(), 1);
    send(&house, &ada, &bob, "mail").await;
    while let Some(held) = reads.next().await {
        assert_eq!((held.status, bodies(&held.body["messages"])), (200, vec!["mail"]));
    }
    let again = house.call(0, &bob, "mailbox_check", json!({ "since": 2, "wait": 1 })).await;
    assert_eq!(again.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_pod_answers_its_held_reads_with_their_cursor() {
    let mut house = two_pods().await;
    let [bob] = house.register_many(1).await.try_into().unwrap();
    let url = format!("{}/api/v1/mailbox/messages?since=1&wait=25", house.url(1));
    let held = house.http().get(url).bearer_auth(&bob.key).send();
    let draining = house.pods.remove(1);
    let (held, ()) = tokio::join!(async { held.await.unwrap().json::<Value>().await.unwrap() }, async {
        until("it is held", async || number(&house, &bob, POLLS).await == 1).await;
        draining.drain().await;
    });
    assert_eq!((&held["messages"], &held["next_since"]), (&json!([]), &json!(1)), "{held}");
    assert!(held["waited_ms"].as_u64().unwrap() < 20_000);
}
