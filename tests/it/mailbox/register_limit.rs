//! Registrations per hour and client network: exact across pods, and a client cannot choose its network.

use futures::future::join_all;
use serde_json::{Value, json};
use waypost::config::Config;

use crate::house::{Answer, House, settings};

fn limited(limit: u32, trusted: &[&str]) -> Config {
    let trusted_proxies = trusted.iter().map(|network| network.parse().unwrap()).collect();
    Config { register_limit: limit, trusted_proxies, ..settings() }
}

async fn register_from(house: &House, pod: usize, forwarded_for: &str) -> Answer {
    let request = house.http().post(format!("{}/api/v1/onboard", house.url(pod)));
    house.send(request.header("x-forwarded-for", forwarded_for).json(&json!({})), None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_racers_of_one_network_get_exactly_the_limit_across_pods() {
    let house = House::with_pods(2, limited(7, &["127.0.0.0/8"])).await;
    let racers = (0..40).map(|racer| register_from(&house, racer % 2, "198.51.100.7"));
    let answers = join_all(racers).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!((made, refused.len()), (7, 33), "{:?}", answers.iter().map(|a| a.status).collect::<Vec<_>>());
    for answer in refused {
        assert_eq!(answer.body["code"], "rate_limited");
        let seconds = answer.body["details"]["retry_after"].as_u64().unwrap();
        assert!((1..=3600).contains(&seconds), "{seconds}");
        assert_eq!(answer.headers["retry-after"], seconds.to_string());
    }
    assert_eq!(register_from(&house, 0, "198.51.100.8").await.status, 201, "another network has its own");
}

#[tokio::test]
async fn an_hour_later_a_network_may_register_again() {
    let house = House::with_pods(1, limited(2, &[])).await;
    let register = async || house.post(0, "/api/v1/onboard", None, &json!({})).await.status;
    assert_eq!([register().await, register().await, register().await], [201, 201, 429]);
    let shift = "update registration set registered_at = registered_at - interval '59 minutes'";
    sqlx::query(shift).execute(&house.db).await.unwrap();
    let refused = house.post(0, "/api/v1/onboard", None, &json!({})).await;
    let seconds = refused.body["details"]["retry_after"].as_u64().unwrap();
    assert!(refused.status == 429 && (50..=60).contains(&seconds), "{seconds}");
    let shift = "update registration set registered_at = registered_at - interval '1 minute'";
    sqlx::query(shift).execute(&house.db).await.unwrap();
    assert_eq!([register().await, register().await, register().await], [201, 201, 429]);
}

#[tokio::test]
async fn a_client_network_is_an_ipv6_64_and_forwarding_headers_of_strangers_change_nothing() {
    let house = House::with_pods(1, limited(1, &["127.0.0.0/8"])).await;
    assert_eq!(register_from(&house, 0, "2001:db8:1:2::7").await.status, 201);
    assert_eq!(register_from(&house, 0, "2001:db8:1:2:ffff::9").await.status, 429, "the same /64");
    assert_eq!(register_from(&house, 0, "2001:db8:1:3::7").await.status, 201);
    assert_eq!(register_from(&house, 0, "6.6.6.6, 2001:db8:1:3::7").await.status, 429, "read from the right");

    let house = House::with_pods(1, limited(1, &[])).await;
    assert_eq!(register_from(&house, 0, "198.51.100.7").await.status, 201);
    assert_eq!(register_from(&house, 0, "198.51.100.8").await.status, 429);
}

#[tokio::test]
async fn a_refused_registration_does_not_count() {
    let house = House::with_pods(1, limited(1, &[])).await;
    let register = async |arguments: Value| house.post(0, "/api/v1/onboard", None, &arguments).await.status;
    assert_eq!(register(json!({ "agent_name": "a\nb" })).await, 422);
    assert_eq!(register(json!({ "withdrawal_address": "0x1" })).await, 422);
    assert_eq!(register(json!({})).await, 201);
    assert_eq!(register(json!({})).await, 429);
}

#[tokio::test]
async fn a_client_hides_behind_no_forwarding_header_that_is_no_text() {
    let house = House::with_pods(1, limited(2, &["127.0.0.0/8"])).await;
    let mut statuses = Vec::new();
    for client in 0..4 {
        // What a proxy makes of a client's own header: the last hop is the proxy's word.
        let last = reqwest::header::HeaderValue::from_bytes(b"\xe9, 198.51.100.9").unwrap();
        let request = house.http().post(format!("{}/api/v1/onboard", house.url(0)));
        let request =
            request.header("x-forwarded-for", format!("203.0.113.{client}")).header("x-forwarded-for", last);
        statuses.push(house.send(request.json(&json!({})), None).await.status);
    }
    assert_eq!(statuses, [201, 201, 429, 429]);
}
