//! Every row of what HTTP and JSON-RPC must answer, per era.

use serde_json::{Value, json};

use super::client::{Client, modern_meta, said};
use crate::house::House;

const MODERN: Option<&str> = Some("2026-07-28");
const LEGACY: Option<&str> = Some("2025-11-25");

/// What it is, the version header, the body; status, code and id of the answer.
type ErrorRow = (&'static str, Option<&'static str>, String, u16, i64, Value);

/// The status, the JSON-RPC code and the id that a body is answered with under a version header.
async fn post(house: &House, version: Option<&str>, body: &str) -> (u16, Value, Value) {
    let mut request = house.http().post(format!("{}/mcp", house.url(0)));
    request = request.header("Content-Type", "application/json; charset=utf-8");
    if let Some(version) = version {
        request = request.header("MCP-Protocol-Version", version);
    }
    if let Ok(body) = serde_json::from_str::<Value>(body)
        && let (Some(method), true) = (body["method"].as_str(), version == MODERN)
    {
        request = request.header("Mcp-Method", method);
        if let Some(name) = body["params"]["name"].as_str() {
            request = request.header("Mcp-Name", name);
        }
    }
    let said = said(request.body(body.to_owned())).await;
    if said.text.is_empty() {
        return (said.status, Value::Null, Value::Null);
    }
    let body = said.body();
    assert!(said.headers["content-type"].to_str().unwrap() == "application/json");
    (said.status, body["error"]["code"].clone(), body["id"].clone())
}

fn modern(method: &str, params: Value) -> String {
    let mut params = params;
    params["_meta"] = modern_meta();
    json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": params }).to_string()
}

fn legacy(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": params }).to_string()
}

#[tokio::test]
async fn messages_of_each_kind_are_taken_as_their_era_says() {
    let house = House::open().await;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let response = r#"{"jsonrpc":"2.0","id":9,"result":{}}"#;
    let batch = format!("[{}]", legacy("ping", json!({})));
    let forgotten = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"register"}}"#;
    let rows: Vec<(&str, Option<&str>, String, u16, Value)> = vec![
        ("a request", MODERN, modern("tools/list", json!({})), 200, Value::Null),
        ("a request", LEGACY, legacy("tools/list", json!({})), 200, Value::Null),
        ("a request of 2025-03-26", None, legacy("tools/list", json!({})), 200, Value::Null),
        ("a notification", MODERN, cancelled.into(), 202, Value::Null),
        ("a notification", LEGACY, initialized.into(), 202, Value::Null),
        ("a notification", None, initialized.into(), 202, Value::Null),
        ("a cancellation", LEGACY, cancelled.into(), 202, Value::Null),
        ("a request without id", LEGACY, forgotten.into(), 400, json!(-32600)),
        ("a response", MODERN, response.into(), 400, json!(-32600)),
        ("a response", LEGACY, response.into(), 202, Value::Null),
        ("a batch", MODERN, batch.clone(), 400, json!(-32600)),
        ("a batch", LEGACY, batch.clone(), 400, json!(-32600)),
        ("a batch", Some("2025-03-26"), batch, 400, json!(-32600)),
    ];
    for (what, version, body, status, code) in rows {
        let (got_status, got_code, _) = post(&house, version, &body).await;
        assert_eq!((got_status, got_code), (status, code), "{what} {version:?}");
    }
    assert_eq!(registered(&house).await, 0, "a notification must not call a tool");
}

async fn registered(house: &House) -> i64 {
    sqlx::query_scalar("select count(*) from agent").fetch_one(&house.db).await.unwrap()
}

#[tokio::test]
async fn errors_have_the_status_the_code_and_the_id_that_their_era_says() {
    let house = House::open().await;
    let params = |text: &str| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{text}}}"#);
    let rows: Vec<ErrorRow> = vec![
        ("no version header", None, modern("tools/list", json!({})), 400, -32020, json!(9)),
        ("header and _meta differ", LEGACY, modern("tools/list", json!({})), 400, -32020, json!(9)),
        ("an unknown version", Some("1999-01-01"), legacy("tools/list", json!({})), 400, -32022, json!(9)),
        ("no _meta", MODERN, legacy("tools/list", json!({})), 400, -32602, json!(9)),
        ("ping is no modern method", MODERN, modern("ping", json!({})), 404, -32601, json!(9)),
        ("initialize neither", MODERN, modern("initialize", json!({})), 404, -32601, json!(9)),
        ("nor resources", MODERN, modern("resources/read", json!({ "uri": "x:y" })), 404, -32601, json!(9)),
        ("nor listening", MODERN, modern("subscriptions/listen", json!({})), 404, -32601, json!(9)),
        ("an unknown method", LEGACY, legacy("logging/setLevel", json!({})), 200, -32601, json!(9)),
        ("an unknown tool", MODERN, modern("tools/call", json!({ "name": "gone" })), 200, -32602, json!(9)),
        ("an unknown tool", LEGACY, legacy("tools/call", json!({ "name": "gone" })), 200, -32602, json!(9)),
        (
            "a tool that is a route",
            LEGACY,
            legacy("tools/call", json!({ "name": "mailbox_summary" })),
            200,
            -32602,
            json!(9),
        ),
        ("no name", MODERN, modern("tools/call", json!({})), 200, -32602, json!(9)),
        ("a bad cursor", MODERN, modern("tools/list", json!({ "cursor": "x" })), 200, -32602, json!(9)),
        ("a bad cursor", LEGACY, legacy("tools/list", json!({ "cursor": "" })), 200, -32602, json!(9)),
        ("params of another kind", LEGACY, params("[1]"), 200, -32602, json!(9)),
        (
            "a token of another kind",
            LEGACY,
            params(r#"{"name":"register","_meta":{"progressToken":[]}}"#),
            200,
            -32602,
            json!(9),
        ),
        ("initialize without version", LEGACY, legacy("initialize", json!({})), 200, -32602, json!(9)),
        ("not JSON", MODERN, "{".into(), 400, -32700, Value::Null),
        ("not JSON", LEGACY, "hello".into(), 400, -32700, Value::Null),
        ("a lone surrogate", LEGACY, params(r#"{"name":"\ud800"}"#), 400, -32700, json!(9)),
        ("no request", MODERN, "{}".into(), 400, -32600, Value::Null),
        (
            "id null",
            LEGACY,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.into(),
            400,
            -32600,
            Value::Null,
        ),
        ("no method", LEGACY, r#"{"jsonrpc":"2.0","id":9}"#.into(), 400, -32600, json!(9)),
        (
            "a key twice",
            LEGACY,
            r#"{"jsonrpc":"2.0","id":9,"method":"ping","method":"ping"}"#.into(),
            400,
            -32600,
            Value::Null,
        ),
        (
            "a key of params twice",
            LEGACY,
            params(r#"{"name":"register","name":"register"}"#),
            400,
            -32600,
            json!(9),
        ),
    ];
    for (what, version, body, status, code, id) in rows {
        assert_eq!(post(&house, version, &body).await, (status, json!(code), id), "{what} {version:?}");
    }
}

#[tokio::test]
async fn an_id_comes_back_byte_for_byte() {
    let house = House::open().await;
    let client = Client::legacy(&house);
    for (id, method) in
        [(r#""a\u0041/""#, "ping"), ("123456789012345678901234567890", "gone"), ("-1", "ping")]
    {
        let said = client.post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)).await;
        assert!(said.text.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{}", said.text);
    }
}

#[tokio::test]
async fn only_posts_of_json_up_to_the_limit_are_taken() {
    let house = House::open().await;
    for path in ["/mcp", "/o/public/mcp"] {
        let url = format!("{}{path}", house.url(0));
        for request in [house.http().get(&url), house.http().delete(&url), house.http().put(&url)] {
            let said = said(request.header("Mcp-Session-Id", "x")).await;
            said.refusal_without_id(405, "method_not_allowed");
            assert_eq!(said.headers["allow"], "POST");
        }
        let ping = r#"{"jsonrpc":"2.0","id":"an id","method":"ping"}"#;
        for kind in ["text/plain", "application/json-seq", ""] {
            let request = house.http().post(&url).header("Content-Type", kind).body(ping);
            said(request).await.refusal(415, "unsupported_media");
        }
        for accept in ["*/*", "application/json", "text/event-stream", ""] {
            let request = house.http().post(&url).header("Accept", accept).body(ping);
            said(request.header("Content-Type", "Application/JSON")).await.result();
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(300_000));
        let request = house.http().post(&url).header("Content-Type", "application/json").body(long);
        said(request).await.refusal_without_id(413, "payload_too_large");
    }
    let preflight = house.http().request(reqwest::Method::OPTIONS, format!("{}/mcp", house.url(0)));
    let preflight = preflight.header("Origin", "https://app.example");
    let preflight = preflight.header("Access-Control-Request-Method", "POST");
    let answer = said(preflight.header("Access-Control-Request-Headers", "mcp-method,authorization")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["access-control-allow-headers"], "mcp-method,authorization");
}

#[tokio::test]
async fn a_tools_own_limit_is_judged_once_the_tool_is_known() {
    use waypost::call::{Registry, Toolset, dialect::Dialect};
    let mut house = House::empty().await;
    let wide = Toolset::new("wide", "Takes long bodies.", Dialect::Mailbox, 1 << 20);
    house.add_pod(crate::house::settings(), Registry::new(vec![waypost::mailbox::toolset(), wide])).await;
    let long = json!({ "description": "x".repeat(300_000) });
    let refused = Client::modern(&house).call("register", long).await.refusal(413, "payload_too_large");
    assert_eq!(refused["data"]["details"]["limit"], 256 * 1024);
}
