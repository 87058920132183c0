//! A house for each test: a database of its own on one shared, real Postgres, and pods on it.

pub mod cluster;
pub mod mail;
pub mod outage;

use std::net::Ipv4Addr;
use std::sync::LazyLock;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::time::timeout;
use waypost::call::{Entry, Registry};
use waypost::config::{Config, Secret};
use waypost::egress::Resolver;
use waypost::error::kinds;
use waypost::pod::Pod;

/// A database of its own, and the pods that share it.
pub struct House {
    /// How to connect to the database.
    pub options: PgConnectOptions,
    /// Connections of the test's own.
    pub db: PgPool,
    /// The pods, in the order they were started.
    pub pods: Vec<Pod>,
    http: reqwest::Client,
}

/// An agent that a test registered.
#[derive(Debug, Clone)]
pub struct Agent {
    pub id: String,
    pub name: String,
    pub key: String,
    pub owner_key: String,
}

impl Agent {
    /// The agent of a registration's answer.
    pub fn of(registered: &Value) -> Agent {
        let text = |name: &str| registered[name].as_str().unwrap_or_default().to_owned();
        Agent {
            id: text("agent_id"),
            name: text("agent_name"),
            key: text("api_key"),
            owner_key: text("owner_key"),
        }
    }
}

/// What a door answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

/// The secret key of every pod in tests.
pub const SECRET_KEY: [u8; 32] = [7; 32];

/// The settings of pods in tests: no limits on registrations and requests, and every host is this machine, so that
/// nothing leaves it.
pub fn settings() -> Config {
    Config {
        register_limit: 0,
        rate_limit: 0,
        log: "error".into(),
        secret_key: Some(Secret::new(SECRET_KEY)),
        unsafe_egress: true,
        resolver: Resolver::new(|_| Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })),
        ..Config::default()
    }
}

impl House {
    /// Polls are written down twice a second; for who looks at them right now.
    pub async fn write_polls_down(&self) {
        for pod in &self.pods {
            pod.dispatch.polls.write_down(&pod.dispatch.pool).await;
        }
    }

    /// One pod with [`settings`].
    pub async fn open() -> House {
        House::with_pods(1, settings()).await
    }

    /// So many pods, all with these settings.
    pub async fn with_pods(count: usize, config: Config) -> House {
        let mut house = House::empty().await;
        for _ in 0..count {
            house.add_pod(config.clone(), waypost::registry()).await;
        }
        house
    }

    /// No pod yet.
    pub async fn empty() -> House {
        let options = cluster::new_database().await;
        let db = PgPool::connect_lazy_with(options.clone());
        House { options, db, pods: Vec::new(), http: reqwest::Client::new() }
    }

    /// Starts a pod; its place in [`House::pods`] is the answer.
    pub async fn add_pod(&mut self, config: Config, registry: Registry) -> usize {
        let options = waypost::postgres::pool::session(self.options.clone());
        self.pods.push(Pod::start(&config, registry, options).await.unwrap());
        self.pods.len() - 1
    }

    /// The URL of a pod.
    pub fn url(&self, pod: usize) -> String {
        format!("http://{}", self.pods[pod].address)
    }

    /// The client, for requests of any shape.
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Registers an agent on the first pod, with a made name.
    pub async fn register(&self) -> Agent {
        self.register_with(json!({})).await
    }

    /// Registers so many agents.
    pub async fn register_many(&self, count: usize) -> Vec<Agent> {
        join_all((0..count).map(|_| self.register())).await
    }

    /// Registers an agent with these arguments.
    pub async fn register_with(&self, arguments: Value) -> Agent {
        let answer = self.post(0, "/api/v1/onboard", None, &arguments).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        Agent::of(&answer.body)
    }

    /// Posts JSON, with an agent key if there is one.
    pub async fn post(&self, pod: usize, path: &str, key: Option<&str>, body: &Value) -> Answer {
        let request = self.http.post(format!("{}{path}", self.url(pod))).json(body);
        self.send(request, key).await
    }

    /// Gets a path, with an agent key if there is one.
    pub async fn get(&self, pod: usize, path: &str, key: Option<&str>) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.url(pod))), key).await
    }

    /// Sends a request and reads the answer as JSON; an empty body is null.
    pub async fn send(&self, request: reqwest::RequestBuilder, key: Option<&str>) -> Answer {
        let request = match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    /// Calls a tool over REST, whatever it answers; a refusal is one that the tool's documents name.
    pub async fn call(&self, pod: usize, agent: &Agent, tool: &str, arguments: Value) -> Answer {
        let answer = self.post(pod, &format!("/api/v1/tools/{tool}"), Some(&agent.key), &arguments).await;
        is_documented(tool, &answer);
        answer
    }

    /// Calls a tool over REST on the first pod and expects success.
    pub async fn ok(&self, agent: &Agent, tool: &str, arguments: Value) -> Value {
        let answer = self.call(0, agent, tool, arguments).await;
        assert_eq!(answer.status, 200, "{tool}: {}", answer.body);
        answer.body
    }

    /// Calls a tool over REST on the first pod and expects this refusal; its problem is the answer.
    pub async fn refused(&self, agent: &Agent, tool: &str, arguments: Value, code: &str) -> Value {
        let answer = self.call(0, agent, tool, arguments).await;
        assert_eq!(answer.body["code"], code, "{tool}: {} {}", answer.status, answer.body);
        answer.body
    }
}

/// Fails when a tool refuses with a code of its own that its documents do not name.
fn is_documented(tool: &str, answer: &Answer) {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(waypost::registry);
    if let (Some(entry), Some(code), true) =
        (REGISTRY.find(tool), answer.body["code"].as_str(), answer.status >= 400)
    {
        is_named(entry, code);
    }
}

/// Fails when `code` is an error of calls that neither every tool may answer nor this one says it does.
pub fn is_named(entry: &Entry, code: &str) {
    let is_of_calls = kinds::all().iter().any(|kind| kind.verdict().0 == code);
    let is_named = !is_of_calls || kinds::ANYWHERE.contains(&code) || entry.refuses.contains(&code);
    assert!(is_named, "{} refuses with {code}, which its REFUSES does not name", entry.spec.name);
}

/// Sends one plain message and gives its id.
pub async fn send(house: &House, from: &Agent, to: &Agent, body: &str) -> String {
    let sent = house.ok(from, "mailbox_send", mail::letter(to, body)).await;
    sent["message_id"].as_str().unwrap().to_owned()
}

/// When an agent's mailbox was last polled. Look before a held read begins, for [`polled_since`].
pub async fn last_poll(house: &House, agent: &Agent) -> Option<time::OffsetDateTime> {
    house.write_polls_down().await;
    sqlx::query_scalar("select last_polled_at from poll where agent_id = $1::text::uuid")
        .bind(&agent.id)
        .fetch_optional(&house.db)
        .await
        .unwrap()
}

/// Waits until the mailbox was polled again: a held read has begun.
pub async fn polled_since(house: &House, agent: &Agent, before: Option<time::OffsetDateTime>) {
    until("polled", async || last_poll(house, agent).await != before).await;
}

/// Looks again and again until it is so, for what only the database tells; a minute is too much.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(60), looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}
