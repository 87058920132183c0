//! Requests that carry a key where no key belongs.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Each with what it is, for whoever reads a failure. None of them succeeds in changing anything.
pub fn requests(http: &reqwest::Client, url: &str, secret: &str) -> Vec<(String, RequestBuilder)> {
    let mut all = Vec::new();
    headers(&mut all, http, url, secret);
    urls(&mut all, http, url, secret);
    bodies(&mut all, http, url, secret);
    rpc(&mut all, http, url, secret);
    all
}

/// The same in headers, addresses and envelopes, written as some client may do by mistake: no rule knows a key in it,
/// so nothing may be kept of what is sent there. (In a body it would be text like any.)
pub fn encoded(http: &reqwest::Client, url: &str, secret: &str) -> Vec<(String, RequestBuilder)> {
    let bytes = secret.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    let mut all = Vec::new();
    for text in [STANDARD.encode(bytes), URL_SAFE_NO_PAD.encode(bytes), hex, percent] {
        headers(&mut all, http, url, &text);
        urls(&mut all, http, url, &text);
        rpc(&mut all, http, url, &text);
    }
    all
}

type Requests = Vec<(String, RequestBuilder)>;

fn headers(all: &mut Requests, http: &reqwest::Client, url: &str, secret: &str) {
    for (name, before) in [
        ("Authorization", "Bearer "),
        ("Authorization", "Basic "),
        ("Authorization", ""),
        ("X-API-Key", ""),
        ("X-API-Key", "x"),
        ("X-Owner-Key", ""),
        ("X-Owner-Key", "x"),
        ("X-Request-Id", ""),
        ("X-Request-Id", "a-"),
        ("User-Agent", ""),
        ("Cookie", "key="),
        ("Referer", "http://a/"),
        ("Origin", "http://"),
        ("Host", ""),
        ("traceparent", ""),
        ("X-Forwarded-For", ""),
        ("X-MCP-Toolsets", ""),
        ("MCP-Protocol-Version", ""),
        ("Mcp-Method", ""),
        ("Mcp-Name", ""),
        ("Mcp-Session-Id", ""),
        ("Accept", ""),
        ("Content-Type", ""),
        ("Content-Encoding", ""),
        ("Last-Event-ID", ""),
        (secret, ""),
    ] {
        let value = format!("{before}{secret}");
        let what = if name == secret { "the name of a header" } else { name };
        let read = http.get(format!("{url}/api/v1/whoami")).header(name, &value);
        all.push((format!("{what} over REST"), read));
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "who_am_i", "arguments": {} } });
        let call = http.post(format!("{url}/mcp")).header(name, &value);
        let call =
            if name == "Content-Type" { call } else { call.header("Content-Type", "application/json") };
        all.push((format!("{what} over MCP"), call.body(body.to_string())));
    }
    let Ok(method) = Method::from_bytes(secret.as_bytes()) else { return };
    all.push(("the method".into(), http.request(method.clone(), format!("{url}/api/v1/whoami"))));
    all.push(("the method at /mcp".into(), http.request(method, format!("{url}/mcp"))));
}

fn urls(all: &mut Requests, http: &reqwest::Client, url: &str, secret: &str) {
    for path in [
        "/KEY",
        "/api/v1/KEY",
        "/api/v1/tools/KEY",
        "/api/v1/mailbox/messages/KEY",
        "/api/v1/mailbox/messages?box_key=KEY",
        "/api/v1/mailbox/messages?api_key=KEY",
        "/api/v1/mailbox/messages?KEY=1",
        "/api/v1/mailbox/messages?since=KEY",
        "/api/v1/whoami?KEY",
        "/api/v1/agents?owner_key=KEY",
        "/api/v1/agents/KEY/keys",
        "/o/KEY/api/v1/whoami",
        "/o/KEY/mcp",
        "/mcp?toolsets=KEY",
        "/mcp/KEY",
        "/.well-known/oauth-protected-resource/KEY",
        "/llms.txt?key=KEY",
        "/docs/KEY",
        "/docs/mailbox?key=KEY",
        "/api/v1/whoami?ticket=KEY",
        "/api/v1/inbox/stream?since=KEY",
        "/api/v1/inbox/stream?ticket=KEYx",
        "/api/v1/inbox/stream?ticket=KEY&ticket=KEY",
        "/api/v1/inbox/KEY?ticket=KEY",
    ] {
        let address = format!("{url}{}", path.replace("KEY", secret));
        all.push((format!("GET {path}"), http.get(&address)));
        all.push((format!("POST {path}"), http.post(&address).json(&json!({}))));
    }
}

fn bodies(all: &mut Requests, http: &reqwest::Client, url: &str, secret: &str) {
    let nobody = "00000000-0000-7000-8000-00000000dead";
    for (tool, arguments) in [
        ("who_am_i", json!({ "box_key": format!("{secret}x") })),
        ("who_am_i", json!({ "owner_key": secret })),
        ("renew_agent_key", json!({ "box_key": secret })),
        ("renew_agent_key", json!({ "owner_key": format!("x{secret}") })),
        ("renew_agent_key", json!({ "owner_key": secret, "agent_id": nobody })),
        ("renew_agent_key", json!({ "owner_key": secret, "agent_id": secret })),
        ("register", json!({ "owner_key": format!("{secret}{secret}") })),
        ("register", json!({ "agent_name": secret })),
        ("register", json!({ "agent_name": format!("key {secret}") })),
        ("register", json!({ secret: secret })),
        ("register", json!({ "channel": secret, "wallet_address": secret })),
    ] {
        all.push((format!("an argument of {tool}"), post(http, url, tool).json(&arguments)));
    }
    let odd = [
        secret.to_owned(),
        format!("\"{secret}\""),
        format!("{{\"{secret}\":"),
        format!("{{\"a\":\"{secret}\\u0000\"}}"),
        format!("{{\"{secret}\":1,\"{secret}\":2}}"),
        format!("{{\"body\":\"{}\"}}", secret.repeat(8000)),
    ];
    for (number, body) in odd.into_iter().enumerate() {
        let request = post(http, url, "mailbox_send").header("Content-Type", "application/json");
        all.push((format!("odd body {number}"), request.body(body.clone())));
        all.push((format!("odd body {number} as plain text"), post(http, url, "register").body(body)));
    }
}

/// Arguments that only a caller with a key gets judged.
pub fn arguments(secret: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("mailbox_check", json!({ secret: 1 })),
        ("mailbox_stream", json!({ "since": secret })),
        ("mailbox_stream", json!({ secret: 1, "heartbeat_seconds": secret })),
        ("mailbox_check", json!({ "since": secret })),
        ("mailbox_claim", json!({ "run_id": secret })),
        ("mailbox_claim", json!({ "message_ids": [secret] })),
        ("mailbox_ack", json!({ "message_ids": [secret], "reply_text": "x" })),
        (
            "mailbox_ack",
            json!({ "message_ids": ["00000000-0000-7000-8000-00000000dead"], "ack_body": 1, secret: 1 }),
        ),
        ("mailbox_send", json!({ "recipient_agent_id": secret, "body": "x" })),
        ("mailbox_send", json!({ "recipient_agent_name": secret, "body": "x" })),
        ("mailbox_send", json!({ "recipient_agent_name": "x", "body": "x", "parts": [{ secret: 1 }] })),
        (
            "mailbox_send",
            json!({ "recipient_agent_name": "x", "body": "x", "parts": [{ "text": "x", "metadata": secret }] }),
        ),
        ("mailbox_send", json!({ "recipient_agent_name": "x", "body": "x", "ack_deadline": secret })),
        ("who_am_i", json!({ "box_key": secret, "api_key": secret })),
    ]
}

fn post(http: &reqwest::Client, url: &str, tool: &str) -> RequestBuilder {
    http.post(format!("{url}/api/v1/tools/{tool}"))
}

fn rpc(all: &mut Requests, http: &reqwest::Client, url: &str, secret: &str) {
    let call = |name: &str, arguments: Value, meta: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": name, "arguments": arguments, "_meta": meta } })
    };
    for (what, body) in [
        ("method", json!({ "jsonrpc": "2.0", "id": 1, "method": secret })),
        ("notification", json!({ "jsonrpc": "2.0", "method": secret, "params": { secret: secret } })),
        ("version of JSON-RPC", json!({ "jsonrpc": secret, "id": 1, "method": "ping" })),
        ("id", json!({ "jsonrpc": "2.0", "id": secret, "method": "tools/list" })),
        ("id of a failure", json!({ "jsonrpc": "2.0", "id": secret, "method": "nothing" })),
        ("id of no kind", json!({ "jsonrpc": "2.0", "id": [secret], "method": "tools/list" })),
        (
            "protocol",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": secret, "clientInfo": { "name": secret }, "capabilities": { secret: {} } } }),
        ),
        (
            "cursor",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "cursor": secret } }),
        ),
        ("tool", call(secret, json!({}), json!({}))),
        ("argument", call("who_am_i", json!({ "box_key": secret, secret: secret }), json!({}))),
        ("owner key", call("who_am_i", json!({ "owner_key": secret }), json!({}))),
        ("progressToken", call("mailbox_check", json!({ "wait": 1 }), json!({ "progressToken": secret }))),
        ("_meta", call("who_am_i", json!({}), json!({ secret: secret }))),
        ("batch", json!([{ "jsonrpc": "2.0", "id": secret, "method": secret }])),
    ] {
        let accept = "application/json, text/event-stream";
        let request = http.post(format!("{url}/mcp")).header("Accept", accept).json(&body);
        all.push((format!("{what} over MCP"), request));
    }
}

/// Bytes that are no request, or one that is never finished: what the server says to them.
pub async fn broken(url: &str, secret: &str) -> String {
    let mut said = String::new();
    for bytes in [
        format!("{secret} {secret} {secret}\r\n\r\n"),
        format!("GET /{secret} HTTP/1.1\r\n{secret}\r\n\r\n"),
        format!("GET /{secret} HTTP/9.9\r\nHost: localhost\r\n\r\n"),
        format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {secret}\r\n\r\n"),
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{secret}"
        ),
    ] {
        let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A connection that is reset has said what it had to say.
        let _ = stream.read_to_end(&mut answer).await;
        said.push_str(&String::from_utf8_lossy(&answer));
    }
    said
}
