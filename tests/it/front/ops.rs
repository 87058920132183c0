//! Probes and metrics.

use std::sync::Arc;

use tokio::net::TcpListener;
use waypost::config::Config;
use waypost::doors::accept::{Drain, Limits, serve};
use waypost::doors::probes::ops;
use waypost::telemetry;

use super::Pod;
use super::wire::get_request;

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

#[tokio::test]
async fn the_ops_listener_serves_probes_and_metrics_to_any_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pod = Pod { address: listener.local_addr().unwrap(), drain: Drain::default() };
    let router = ops(Arc::new(|| Box::pin(async { Vec::new() })), telemetry::install("off"));
    pod.drain.tracker.spawn(serve(listener, router, Limits::default(), pod.drain.clone()));
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = pod.ask(&format!("GET {path} HTTP/1.1\r\nHost: 10.1.2.3:9464\r\n\r\n")).await;
        assert_eq!(answer.status, 200, "{path}");
    }
}
