//! What is checked of every request's head, and how refusals read.

use waypost::config::{Allowed, Config};
use waypost::doors::accept::Limits;

use super::wire::get_request;
use super::{PUBLIC_URL, Pod};

#[tokio::test]
async fn framing_that_two_readers_may_understand_differently_is_refused() {
    let pod = Pod::start(Limits::default()).await;
    for request in [
        "GET /hello/a HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "GET /hello/a HTTP/1.1\r\n\r\n",
        "GET /hello/a HTTP/1.0\r\n\r\n",
        "GET http://evil.example/hello/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        "POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ] {
        let answer = pod.ask(request).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{request}");
    }
    let long = get_request("/hello/a", &format!("X: {}\r\n", "x".repeat(40_000)));
    assert_eq!(pod.ask(&long).await.status, 431);
    let chunked =
        "POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    assert_eq!(pod.ask(chunked).await.body, "1");
}

#[tokio::test]
async fn a_foreign_host_is_refused_everywhere_but_at_the_probes() {
    let pod = Pod::start(Limits::default()).await;
    let with_host = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let refused = pod.ask(&with_host("/hello/a", "evil.example")).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "host_refused"));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
    assert_eq!(pod.ask(&with_host("/livez", "evil.example")).await.status, 200);
    assert_eq!(pod.ask("GET /readyz HTTP/1.0\r\n\r\n").await.status, 200);
    for host in ["inbox.example", "127.0.0.1:9", "[::1]", "LocalHost:80"] {
        assert_eq!(pod.ask(&with_host("/hello/a", host)).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_foreign_origin_is_refused_when_origins_are_listed() {
    let listed = Allowed::List(vec!["https://app.example".to_owned()]);
    let config = Config { allowed_origins: listed, ..Config::default() };
    let pod = Pod::start_with(Limits::default(), &config, None).await;
    let from = |path: &str, origin: &str| get_request(path, &format!("Origin: {origin}\r\n"));
    for origin in ["https://app.example", PUBLIC_URL] {
        let answer = pod.ask(&from("/hello/a", origin)).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(origin)));
    }
    let refused = pod.ask(&from("/hello/a", "https://evil.example")).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "origin_refused"));
    assert_eq!(refused.header("access-control-allow-origin"), None);
    assert_eq!(pod.ask(&from("/livez", "https://evil.example")).await.status, 200);
    assert_eq!(pod.ask(&get_request("/hello/a", "")).await.status, 200);
}

#[tokio::test]
async fn refusals_at_mcp_are_json_rpc_errors() {
    let pod = Pod::start(Limits::default()).await;
    let post = |headers: &str| format!("POST /o/acme/mcp HTTP/1.1\r\nContent-Length: 0\r\n{headers}\r\n");
    let refused = pod.ask(&post("Host: evil.example\r\n")).await;
    assert_eq!((refused.status, refused.header("content-type")), (403, Some("application/json")));
    let body: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!((&body["jsonrpc"], &body["error"]["code"]), (&"2.0".into(), &403.into()));
    assert_eq!(body["error"]["data"], serde_json::json!({"code": "host_refused", "retryable": false}));
    assert!(body.as_object().unwrap()["id"].is_null());
    assert_eq!(pod.ask(&post("Host: localhost\r\nContent-Encoding: gzip\r\n")).await.status, 415);
    assert_eq!(pod.ask(&post("Host: localhost\r\nContent-Encoding: identity\r\n")).await.status, 200);
}

#[tokio::test]
async fn a_preflight_is_answered_for_every_header_and_never_allows_cookies() {
    let pod = Pod::start(Limits::default()).await;
    let preflight = "OPTIONS /o/acme/mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\
        Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, mcp-name\r\n\r\n";
    let answer = pod.ask(preflight).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization, mcp-name"));
    assert!(answer.header("access-control-allow-methods").unwrap().contains("DELETE"));
    assert_eq!(answer.header("access-control-max-age"), Some("7200"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);

    let exposed = pod.ask(&get_request("/hello/a", "Origin: https://app.example\r\n")).await;
    let exposed = exposed.header("access-control-expose-headers").unwrap().to_ascii_lowercase();
    for name in [
        "allow",
        "www-authenticate",
        "mcp-session-id",
        "mcp-protocol-version",
        "retry-after",
        "ratelimit",
        "ratelimit-policy",
        "x-request-id",
    ] {
        assert!(exposed.split(',').any(|one| one.trim() == name), "{name}");
    }
}

#[tokio::test]
async fn a_sane_request_id_is_kept_and_any_other_replaced() {
    let pod = Pod::start(Limits::default()).await;
    let sent = |id: &str| get_request("/hello/a", &format!("X-Request-Id: {id}\r\n"));
    assert_eq!(pod.ask(&sent("abc-1.2_3")).await.header("x-request-id"), Some("abc-1.2_3"));
    let uuid = "01a22cc3-3246-7322-96ed-f14044286714";
    assert_eq!(pod.ask(&sent(uuid)).await.header("x-request-id"), Some(uuid));
    for id in ["a b", "", "wpa_0123456789", "a\u{e9}", &"x".repeat(37)] {
        let answer = pod.ask(&sent(id)).await;
        assert_eq!(answer.header("x-request-id").unwrap().len(), 32, "{id}");
    }
    assert!(pod.ask("GET /hello/a HTTP/1.1\r\n\r\n").await.header("x-request-id").is_some());
}

#[tokio::test]
async fn a_panic_is_a_500_that_tells_nothing_and_the_connection_goes_on() {
    let pod = Pod::start(Limits::default()).await;
    let mut client = pod.connect().await;
    client.send(&get_request("/panic", "")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.code().as_str()), (500, "internal_error"));
    assert!(answer.body.contains(r#""retryable":true"#), "{}", answer.body);
    assert!(!answer.body.contains("secret"));
    client.send(&get_request("/hello/a", "")).await;
    assert_eq!(client.answer().await.body, "hello");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let pod = Pod::start(Limits::default()).await;
    let unknown = pod.ask(&get_request("/no/such", "")).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "not_found"));
    let method = pod.ask(&get_request("/body", "")).await;
    assert_eq!((method.status, method.code().as_str()), (405, "method_not_allowed"));
    assert_eq!(method.header("allow"), Some("POST"));
}
