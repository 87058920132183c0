//! Requests per second: whom a request counts on, what the refused are told, and how pods share the limit.

mod sharing;
mod shedding;

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use waypost::call::credential::{Kind, Secret};
use waypost::config::Config;

use crate::house::{Agent, Answer, House, settings};

/// Pods that allow so many requests per second, and believe whoever calls where he comes from.
fn limited(limit: u32) -> Config {
    Config { rate_limit: limit, trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..settings() }
}

/// A house with one such pod.
async fn house(limit: u32) -> House {
    House::with_pods(1, limited(limit)).await
}

/// Some networks.
const HERE: &str = "198.51.100.7";
const THERE: &str = "203.0.113.9";

/// Registers an agent from a network of its own, so that it takes nothing from the test's.
async fn register(house: &House, place: u8) -> Agent {
    let request = post(house, 0, "/api/v1/onboard", &format!("192.0.2.{place}"), &json!({}));
    let answer = house.send(request, None).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    Agent::of(&answer.body)
}

fn post(house: &House, pod: usize, path: &str, network: &str, body: &Value) -> RequestBuilder {
    let request = house.http().post(format!("{}{path}", house.url(pod)));
    request.header("x-forwarded-for", network).json(body)
}

/// A cheap call by REST.
async fn call(house: &House, pod: usize, network: &str, key: Option<&str>) -> Answer {
    house.send(post(house, pod, "/api/v1/tools/who_am_i", network, &json!({})), key).await
}

/// A tool's call by MCP, with these arguments.
async fn rpc(house: &House, network: &str, key: Option<&str>, arguments: Value) -> Answer {
    let params = json!({ "name": "who_am_i", "arguments": arguments });
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    house.send(post(house, 0, "/mcp", network, &message), key).await
}

/// Asks until it is refused: how often it was answered, and the refusal.
async fn until_refused(mut ask: impl AsyncFnMut() -> Answer) -> (u32, Answer) {
    for answered in 0..10_000 {
        let answer = ask().await;
        if answer.status == 429 || answer.body.to_string().contains("rate_limited") {
            return (answered, answer);
        }
    }
    panic!("never refused");
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_credential_is_limited_at_its_burst_and_let_in_again_when_it_was_told() {
    let house = house(2).await;
    let agent = register(&house, 1).await;
    let first = call(&house, 0, HERE, Some(&agent.key)).await;
    assert_eq!(header(&first, "ratelimit-policy"), r#""credential";q=4;w=2"#);
    assert_eq!(header(&first, "ratelimit"), r#""credential";r=3;t=1"#);

    let (answered, refused) = until_refused(async || call(&house, 0, HERE, Some(&agent.key)).await).await;
    // Four at once, and what comes back while they are asked for.
    assert!((3..12).contains(&answered), "{answered}");
    assert_eq!(refused.status, 429);
    assert_eq!(header(&refused, "content-type"), "application/problem+json");
    assert_eq!(header(&refused, "ratelimit-policy"), r#""credential";q=4;w=2"#);
    assert_eq!(header(&refused, "ratelimit"), r#""credential";r=0;t=1"#);
    assert_eq!((&refused.body["code"], &refused.body["retryable"]), (&json!("rate_limited"), &json!(true)));
    let seconds = refused.body["details"]["retry_after"].as_u64().unwrap();
    assert_eq!((seconds, header(&refused, "retry-after")), (1, "1"));

    // Not a wait for something: what a client does that was told so.
    sleep(Duration::from_secs(seconds)).await;
    assert_eq!(call(&house, 0, HERE, Some(&agent.key)).await.status, 200);
}

#[tokio::test]
async fn neither_another_credential_nor_a_stranger_on_the_network_is_disturbed() {
    let house = house(2).await;
    let (busy, calm) = (register(&house, 1).await, register(&house, 2).await);
    until_refused(async || call(&house, 0, HERE, Some(&busy.key)).await).await;
    assert_eq!(call(&house, 0, HERE, Some(&calm.key)).await.status, 200);
    assert_eq!(call(&house, 0, HERE, None).await.status, 401, "a stranger, who is told to register");
    assert_eq!(call(&house, 0, THERE, Some(&busy.key)).await.status, 429, "a key is limited wherever it is");
}

#[tokio::test]
async fn strangers_are_limited_per_network_at_every_door() {
    let house = house(2).await;
    let list = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list" });
    let initialize = json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {} });
    for (place, path, body) in [
        (1, "/api/v1/tools/who_am_i", json!({})),
        (2, "/api/v1/onboard", json!({})),
        (3, "/api/v1/onboard", json!([])),
        (4, "/api/v1/tools/no_such_tool", json!({})),
        (5, "/o/nobody/api/v1/onboard", json!({})),
        (6, "/mcp", list),
        (7, "/mcp", initialize),
        (8, "/mcp", json!("junk")),
    ] {
        let from = format!("203.0.113.{place}");
        let ask = async || house.send(post(&house, 0, path, &from, &body), None).await;
        let (answered, refused) = until_refused(ask).await;
        assert!((4..12).contains(&answered), "{path}: {answered}");
        assert_eq!((refused.status, header(&refused, "retry-after")), (429, "1"), "{path}");
        assert_eq!(header(&refused, "ratelimit"), r#""network";r=0;t=1"#, "{path}");
    }
    let peek = async || {
        let request = house.http().get(format!("{}/mcp", house.url(0)));
        house.send(request.header("x-forwarded-for", THERE), None).await
    };
    let (answered, _) = until_refused(peek).await;
    assert!((4..12).contains(&answered), "a method that is not served: {answered}");
    assert_eq!(call(&house, 0, HERE, None).await.status, 401, "another network is not disturbed");
}

#[tokio::test]
async fn a_stranger_that_is_refused_has_changed_nothing() {
    let house = house(2).await;
    let ask = async || house.send(post(&house, 0, "/api/v1/onboard", HERE, &json!({})), None).await;
    let (answered, _) = until_refused(ask).await;
    let made: i64 = sqlx::query_scalar("select count(*) from agent").fetch_one(&house.db).await.unwrap();
    assert_eq!(made, i64::from(answered));
}

#[tokio::test]
async fn guessing_keys_is_limited_per_network_and_disturbs_no_key_that_stood_lately() {
    let house = house(2).await;
    let (known, met) = (register(&house, 1).await, register(&house, 2).await);
    assert_eq!(call(&house, 0, HERE, Some(&known.key)).await.status, 200);
    let (answered, refused) = until_refused(async || call(&house, 0, HERE, Some(&guess())).await).await;
    assert!((4..12).contains(&answered), "{answered}");
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("rate_limited")));
    assert_eq!(header(&refused, "ratelimit-policy"), r#""network";q=4;w=2"#);
    assert_eq!(call(&house, 0, HERE, Some(&known.key)).await.status, 200);
    assert_eq!(call(&house, 0, THERE, Some(&met.key)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_guesses_are_refused_the_database_is_not_asked() {
    let house = house(1).await;
    // Among so many pods, one more guess is allowed every five seconds.
    sharing::pretend_pods(&house, 40).await;
    until_refused(async || call(&house, 0, HERE, Some(&guess())).await).await;
    let mut lock = house.db.acquire().await.unwrap();
    let nobody_reads = "begin; lock table credential, organization in access exclusive mode";
    sqlx::raw_sql(nobody_reads).execute(&mut *lock).await.unwrap();
    let refused = async || {
        assert_eq!(call(&house, 0, HERE, Some(&guess())).await.status, 429);
        let request = post(&house, 0, "/o/guess/api/v1/tools/who_am_i", HERE, &json!({}));
        assert_eq!(house.send(request, None).await.status, 429);
    };
    timeout(Duration::from_secs(3), refused()).await.expect("they wait for the database");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_that_come_at_once_ask_the_database_no_more_than_a_burst() {
    let house = std::sync::Arc::new(house(1).await);
    call(&house, 0, HERE, None).await;
    let mut lock = house.db.acquire().await.unwrap();
    let nobody_reads = "begin; lock table credential in access exclusive mode";
    sqlx::raw_sql(nobody_reads).execute(&mut *lock).await.unwrap();
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let house = house.clone();
        guesses.spawn(async move { call(&house, 0, HERE, Some(&guess())).await.status });
    }
    // The others wait for the table, and there are no more of them than a burst.
    for _ in 0..40 {
        let refused = timeout(Duration::from_secs(3), guesses.join_next()).await;
        assert_eq!(refused.expect("more than a burst wait for the database").unwrap().unwrap(), 429);
    }
}

/// A key that was never issued, with a checksum that is right.
fn guess() -> String {
    Secret::mint(Kind::Agent).expose().to_owned()
}

#[tokio::test]
async fn a_key_among_the_arguments_is_limited_as_itself_and_counted_once() {
    let house = house(2).await;
    let (busy, calm) = (register(&house, 1).await, register(&house, 2).await);
    // The network has nothing left, and that is no affair of theirs.
    for agent in [&busy, &calm] {
        rpc(&house, HERE, None, json!({ "box_key": agent.key })).await;
    }
    until_refused(async || call(&house, 0, HERE, None).await).await;
    let ask = async || rpc(&house, HERE, None, json!({ "box_key": busy.key })).await;
    let (answered, refused) = until_refused(ask).await;
    assert!((3..12).contains(&answered), "{answered}");
    // The tool's own answer: the key was its argument.
    assert_eq!((refused.status, &refused.body["result"]["isError"]), (200, &json!(true)));
    let error = &refused.body["result"]["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["details"]["retry_after"]), (&json!("rate_limited"), &json!(1)));
    assert_eq!(header(&refused, "ratelimit"), r#""credential";r=0;t=1"#);

    let other = rpc(&house, HERE, None, json!({ "box_key": calm.key })).await;
    assert_eq!(other.body["result"]["isError"], false, "{}", other.body);
    let by_header = call(&house, 0, HERE, Some(&busy.key)).await;
    assert_eq!(by_header.status, 429, "the same key in a header");
}

#[tokio::test]
async fn guessed_keys_among_the_arguments_are_limited_per_network() {
    let house = house(2).await;
    for (name, path) in [("box_key", "who_am_i"), ("owner_key", "agent_keys")] {
        let from = format!("203.0.113.{}", name.len());
        let arguments = json!({ name: "wpa_guess" });
        let path = format!("/api/v1/tools/{path}");
        let ask = async || house.send(post(&house, 0, &path, &from, &arguments), None).await;
        let (answered, refused) = until_refused(ask).await;
        assert!((4..12).contains(&answered), "{name}: {answered}");
        assert_eq!(header(&refused, "ratelimit"), r#""network";r=0;t=1"#);
    }
}

#[tokio::test]
async fn at_mcp_a_credential_and_a_network_are_refused_as_http_is() {
    let house = house(2).await;
    let agent = register(&house, 1).await;
    for (key, policy) in [(Some(&*agent.key), "credential"), (None, "network")] {
        let (_, refused) = until_refused(async || rpc(&house, HERE, key, json!({})).await).await;
        assert_eq!((refused.status, header(&refused, "content-type")), (429, "application/json"));
        assert_eq!(header(&refused, "retry-after"), "1");
        assert_eq!(header(&refused, "ratelimit-policy"), format!(r#""{policy}";q=4;w=2"#));
        let (id, error) = (&refused.body["id"], &refused.body["error"]);
        assert_eq!((id, &error["code"]), (&json!(7), &json!(429)), "{}", refused.body);
        let data = json!({ "code": "rate_limited", "retryable": true, "details": { "retry_after": 1 } });
        assert_eq!(error["data"], data);
    }
}

#[tokio::test]
async fn a_page_of_another_origin_can_read_how_it_is_limited() {
    let house = house(2).await;
    let ask = async || {
        let request = post(&house, 0, "/api/v1/tools/who_am_i", HERE, &json!({}));
        house.send(request.header("origin", "https://app.example"), None).await
    };
    let (_, refused) = until_refused(ask).await;
    assert_eq!(header(&refused, "access-control-allow-origin"), "*");
    let exposed = header(&refused, "access-control-expose-headers").to_lowercase();
    for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
        assert!(exposed.split(',').any(|one| one.trim() == name), "{name} is not in {exposed}");
        assert!(refused.headers.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn probes_and_documents_are_never_limited() {
    let house = house(1).await;
    until_refused(async || call(&house, 0, HERE, None).await).await;
    for path in ["/livez", "/readyz", "/llms.txt", "/openapi.yaml"] {
        for _ in 0..20 {
            let request = house.http().get(format!("{}{path}", house.url(0)));
            let answer = house.send(request.header("x-forwarded-for", HERE), None).await;
            assert_eq!((answer.status, header(&answer, "ratelimit")), (200, ""), "{path}");
        }
    }
}

#[tokio::test]
async fn without_a_limit_nobody_is_refused_or_told_of_one() {
    let house = house(0).await;
    let agent = register(&house, 1).await;
    for key in [Some(&*agent.key), None] {
        for _ in 0..50 {
            let answer = call(&house, 0, HERE, key).await;
            assert!(answer.status != 429 && header(&answer, "ratelimit-policy").is_empty());
        }
    }
}
