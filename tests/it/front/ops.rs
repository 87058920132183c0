//! Probes and metrics.

use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use tokio::net::TcpListener;
use waypost::config::Config;
use waypost::doors::accept::Limits;
use waypost::telemetry;

use super::Pod;
use super::wire::get_request;
use crate::house::{House, settings};

#[tokio::test]
async fn handlers_see_the_peer_and_requests_are_counted_by_template() {
    let metrics = telemetry::install("off");
    let pod = Pod::start(Limits::default()).await;
    let mut client = pod.connect().await;
    client.send(&get_request("/peer", "")).await;
    assert_eq!(client.answer().await.body, client.stream.local_addr().unwrap().to_string());
    client.send(&get_request("/hello/private-name?token=private", "")).await;
    assert_eq!(client.answer().await.status, 200);
    let text = metrics.render();
    assert!(text.contains(r#"waypost_http_requests_total{route="/hello/{name}",status="200"}"#), "{text}");
    assert!(!text.contains("private"), "{text}");
}

#[tokio::test]
async fn readiness_names_what_is_wrong_only_when_asked() {
    let pod = Pod::start_with(Limits::default(), &Config::default(), Some("no answer")).await;
    let short = pod.ask(&get_request("/readyz", "")).await;
    assert_eq!((short.status, short.body.as_str()), (503, "not ready\n"));
    let long = pod.ask(&get_request("/readyz?verbose", "")).await;
    assert_eq!(long.body, "[+] schema: ok\n[-] pool: no answer\nnot ready\n");
    assert_eq!(pod.ask(&get_request("/livez", "")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ops_listener_of_a_pod_answers_whatever_host_it_is_called_by() {
    let ops_listen = Some("127.0.0.1:0".parse().unwrap());
    let house = House::with_pods(1, Config { ops_listen, ..settings() }).await;
    let ops = house.pods[0].ops_address.unwrap();
    for path in ["/livez", "/readyz", "/metrics"] {
        let scrape = house.http().get(format!("http://{ops}{path}"));
        let scrape = scrape.header("host", "10.1.2.3:9464").header("origin", "http://grafana.example");
        let answer = house.send(scrape, None).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.headers.contains_key("x-request-id"));
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "no page may read it");
    }
    let public = house.http().get(house.url(0)).header("host", "10.1.2.3:9464");
    assert_eq!(house.send(public, None).await.body["code"], "host_refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_whose_database_answers_nothing_is_not_ready_within_two_seconds() {
    // Connections are taken by the system and never answered.
    let hole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = PgConnectOptions::new().host("127.0.0.1").port(hole.local_addr().unwrap().port());
    let pod = waypost::pod::Pod::start(&settings(), waypost::registry(), options).await.unwrap();
    let url = format!("http://{}", pod.address);
    let asked = Instant::now();
    let answer = reqwest::get(format!("{url}/readyz?verbose")).await.unwrap();
    assert_eq!(answer.status(), 503);
    let said = answer.text().await.unwrap();
    assert!(said.contains("[-] pool: the database does not answer within a second"), "{said}");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_eq!(reqwest::get(format!("{url}/livez")).await.unwrap().status(), 200);
}
