//! Pods behind real proxies, and one behind a pooler: all that is true of a pod holds through them.
//!
//! Run by `./dev test proxy`, which fetches the proxies and the pooler and tells where they are in `CADDY`, `NGINX` and
//! `PGBOUNCER`.

mod caddy;
mod nginx;
mod pooler;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;
use waypost::config::Config;

use crate::agent_path::{reply_over_mcp, reply_over_rest};
use crate::house::{Agent, House, last_poll, polled_since, settings, until};
use crate::malformed::{Bench, Verdict, arguments, envelopes, frames};
use crate::program::{self, Program};
use caddy::Caddy;

/// An address that nobody listens at. Pods must know the proxy's before it starts.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Waits until a proxy passes requests on.
async fn serves(url: &str) {
    let ready = format!("{url}/readyz");
    until("the proxy serves", async || reqwest::get(&ready).await.is_ok_and(|answer| answer.status() == 200))
        .await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "where these programs are, is told by whoever runs these tests"
)]
fn fetched(name: &str) -> PathBuf {
    let program = std::env::var_os(name);
    program.unwrap_or_else(|| panic!("{name} must name a program: run ./dev test proxy")).into()
}

/// Two pods in this process, and the proxy.
async fn two_pods(config: Config) -> (House, Caddy) {
    let address = free_address();
    let house = House::with_pods(2, Config { public_url: Some(format!("http://{address}")), ..config }).await;
    let caddy = Caddy::before(address, &[house.url(0), house.url(1)]).await;
    (house, caddy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Caddy: ./dev test proxy"]
async fn what_nobody_should_send_has_the_same_answers() {
    let (house, caddy) = two_pods(settings()).await;
    let bench = Bench::at(house, caddy.address.to_string()).await;
    let mut verdict = Verdict::default();
    envelopes::judge(&bench, &mut verdict).await;
    arguments::judge(&bench, &mut verdict).await;
    frames::judge_faults(&bench, &mut verdict).await;
    verdict.end(500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Caddy: ./dev test proxy"]
async fn an_agent_that_knows_only_the_url_replies_in_six_calls() {
    let (house, caddy) = two_pods(settings()).await;
    reply_over_mcp(&house, caddy.url()).await;
    reply_over_rest(&house, caddy.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Caddy: ./dev test proxy"]
async fn a_read_is_held_for_twenty_seconds_and_woken_by_mail_at_the_other_pod() {
    let (house, caddy) = two_pods(settings()).await;
    sqlx::query("insert into organization (org_id, slug) values (gen_random_uuid(), 'acme')")
        .execute(&house.db)
        .await
        .unwrap();
    let root = format!("{}/o/acme/api/v1", caddy.url());
    let post = async |path: &str, key: Option<&Agent>, body: Value| {
        let request = house.http().post(format!("{root}{path}")).json(&body);
        house.send(request, key.map(|agent| agent.key.as_str())).await.body
    };
    let registered = post("/onboard", None, json!({})).await;
    let shown = registered["mcp_url"].as_str().unwrap();
    assert!(shown.starts_with(&format!("{}/o/acme/mcp", caddy.url())), "{shown}");
    let (ada, bob) = (Agent::of(&registered), Agent::of(&post("/onboard", None, json!({})).await));
    let held = |since: u32| {
        let read = house.http().get(format!("{root}/mailbox/messages?since={since}&wait=20"));
        house.send(read, Some(&ada.key))
    };
    let began = Instant::now();
    let answer = held(1).await;
    assert_eq!((answer.status, &answer.body["messages"]), (200, &json!([])), "{}", answer.body);
    assert!(began.elapsed() >= Duration::from_secs(20), "{:?}", began.elapsed());

    // Two letters in a row come in at both pods, so each read is woken from the other pod at least once.
    for since in 1..=2 {
        let before = last_poll(&house, &ada).await;
        let letter = async {
            polled_since(&house, &ada, before).await;
            post("/mailbox/messages", Some(&bob), json!({ "recipient_agent_id": ada.id, "body": "hello" }))
                .await
        };
        let (answer, sent) = tokio::join!(held(since), letter);
        assert_eq!(answer.body["messages"][0]["id"], sent["message_id"], "{} {sent}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Caddy: ./dev test proxy"]
async fn registrations_are_counted_by_the_client_behind_the_proxy_on_both_pods() {
    let trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    let (house, caddy) = two_pods(Config { register_limit: 3, trusted_proxies, ..settings() }).await;
    let register = async |from: &str, claimed: Option<&str>| {
        let from: IpAddr = from.parse().unwrap();
        let http = reqwest::Client::builder().local_address(from).build().unwrap();
        let mut request = http.post(format!("{}/api/v1/onboard", caddy.url())).json(&json!({}));
        if let Some(claimed) = claimed {
            request = request.header("x-forwarded-for", claimed);
        }
        let answer = house.send(request, None).await;
        (answer.status, answer.headers.contains_key("retry-after"))
    };
    for from in ["127.0.0.2", "127.0.0.3"] {
        for claimed in [None, Some("203.0.113.7"), Some("203.0.113.8")] {
            assert_eq!(register(from, claimed).await, (201, false), "{from}");
        }
        // Once for each pod, and whoever it says it is.
        for claimed in [None, Some("203.0.113.9")] {
            assert_eq!(register(from, claimed).await, (429, true), "{from}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Caddy: ./dev test proxy"]
async fn a_client_goes_on_while_a_pod_is_killed() {
    let house = House::empty().await;
    let folder = program::folder();
    let start = async |name: &str| {
        Program::start(program::command_on(&house.options, &folder.path().join(name))).await
    };
    let mut pods = vec![start("a").await, start("b").await];
    let caddy =
        Caddy::before(free_address(), &pods.iter().map(|pod| pod.url.clone()).collect::<Vec<_>>()).await;
    let client = Patient { http: house.http().clone(), root: format!("{}/api/v1", caddy.url()) };
    let [ada, bob] = [client.register().await, client.register().await];
    let read = |since: &Value| format!("/mailbox/messages?since={since}&wait=25");

    let before = last_poll(&house, &ada).await;
    let mut held = JoinSet::new();
    held.spawn(client.get(&read(&json!(1)), &ada).send());
    polled_since(&house, &ada, before).await;
    let mut holder = 0;
    until("held", async || {
        holder = 1 - holder;
        pods[holder].metric("waypost_held_reads").await == 1
    })
    .await;
    pods.remove(holder).kill().await;

    // What is sent meanwhile is there, once and in order.
    let mut sent = Vec::new();
    for number in 0..8 {
        let number = number.to_string();
        let letter = json!({ "recipient_agent_id": ada.id, "body": number, "client_message_id": number });
        sent.push(
            client.answer(|| client.post("/mailbox/messages", &bob).json(&letter)).await["message_id"]
                .clone(),
        );
    }
    // The proxy has asked the other pod, or tells the reader to ask again.
    let cut = held.join_next().await.unwrap().unwrap().unwrap().status();
    assert!(cut == 200 || cut == 502, "{cut}");
    let page = client.answer(|| client.get(&read(&json!(1)), &ada)).await;
    let got: Vec<Value> = page["messages"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(got, sent);
    let survivor = pods.remove(0);
    assert!(survivor.metric("waypost_calls_total").await > 8);
    survivor.signal(Signal::SIGTERM);
    assert_eq!(survivor.ended().await.status.code(), Some(0));
}

/// A client that asks again where a proxy could not reach a pod, as every client behind one does.
struct Patient {
    http: reqwest::Client,
    root: String,
}

impl Patient {
    fn get(&self, path: &str, agent: &Agent) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.root)).bearer_auth(&agent.key)
    }

    fn post(&self, path: &str, agent: &Agent) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.root)).bearer_auth(&agent.key)
    }

    async fn register(&self) -> Agent {
        Agent::of(&self.answer(|| self.http.post(format!("{}/onboard", self.root)).json(&json!({}))).await)
    }

    async fn answer(&self, request: impl Fn() -> RequestBuilder) -> Value {
        let asking = async {
            loop {
                let answer = request().send().await.unwrap();
                if answer.status() != 502 {
                    assert!(answer.status().is_success(), "{answer:?}");
                    return answer.json().await.unwrap();
                }
            }
        };
        timeout(Duration::from_secs(60), asking).await.expect("no pod answers")
    }
}
