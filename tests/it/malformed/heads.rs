//! Headers that say something odd of a request whose frame and body are fine.

use super::said::said;
use super::wire::exchange;
use super::{Bench, Verdict};

/// What it is, the header lines, the answer at `/mcp`, the answer over REST. `KEY` stands for the caller's key,
/// `OTHER` for another agent's, `OWNER` for an owner's, `GONE` for one that was never issued.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Beside an `Authorization` that stands and a right Content-Type.
#[rustfmt::skip]
const BESIDE: &[Row] = &[
    ("nothing more", "", "200 ok", "200 ok"),
    ("the same key twice over", "X-API-Key: KEY\r\n", "200 ok", "200 ok"),
    ("another key beside it", "X-API-Key: OTHER\r\n", "401 unauthorized", "401 unauthorized"),
    ("a broken key beside it", "X-API-Key: wpa_x\r\n", "401 unauthorized", "401 unauthorized"),
    ("an empty key beside it", "X-API-Key:\r\n", "401 unauthorized", "401 unauthorized"),
    ("Authorization twice", "Authorization: Bearer KEY\r\n", "200 ok", "200 ok"),
    ("two that differ", "Authorization: Bearer OTHER\r\n", "401 unauthorized", "401 unauthorized"),
    ("another scheme beside it", "Authorization: Basic YTpi\r\n", "401 unauthorized", "401 unauthorized"),
    ("an owner key that is none", "X-Owner-Key: wpo_x\r\n", "401 unauthorized", "401 unauthorized"),
    ("an agent key as the owner's", "X-Owner-Key: KEY\r\n", "403 forbidden", "403 forbidden"),
    ("gzip", "Content-Encoding: gzip\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("br", "Content-Encoding: br\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("an unknown encoding", "Content-Encoding: x\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("an empty encoding", "Content-Encoding:\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("identity, gzip", "Content-Encoding: identity, gzip\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("two encodings", "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("identity", "Content-Encoding: identity\r\n", "200 ok", "200 ok"),
    ("a second Content-Type", "Content-Type: text/plain\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("the same one twice", "Content-Type: application/json\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("a foreign page", "Origin: https://evil.example\r\n", "200 ok", "200 ok"),
    ("a page of no origin", "Origin: null\r\n", "200 ok", "200 ok"),
    ("a cookie", "Cookie: session=1\r\n", "200 ok", "200 ok"),
    ("bytes that are no text", "X-A: \u{ff}\u{fe}\r\n", "200 ok", "200 ok"),
    ("a request id of bytes", "X-Request-Id: \u{ff}\r\n", "200 ok", "200 ok"),
    ("proxies that are none", "X-Forwarded-For: a, b, \u{ff}\r\n", "200 ok", "200 ok"),
    ("a trace that is none", "traceparent: 00-0-0-zz\r\n", "200 ok", "200 ok"),
    ("an event that never was", "Last-Event-ID: x\r\n", "200 ok", "200 ok"),
    ("a session that never was", "Mcp-Session-Id: x\r\n", "200 ok", "200 ok"),
    ("toolsets that are none", "X-MCP-Toolsets: gone\r\n", "400 unknown_toolset", "200 ok"),
    ("toolsets of bytes", "X-MCP-Toolsets: \u{ff}\r\n", "400 unknown_toolset", "200 ok"),
    ("one toolset of two", "X-MCP-Toolsets: mailbox,gone\r\n", "400 unknown_toolset", "200 ok"),
    ("toolsets in capitals", "X-MCP-Toolsets: MAILBOX\r\n", "400 unknown_toolset", "200 ok"),
    ("a version of another time", "MCP-Protocol-Version: 1999-01-01\r\n", "400 -32022", "200 ok"),
    ("a version that is a word", "MCP-Protocol-Version: latest\r\n", "400 -32022", "200 ok"),
    ("an empty version", "MCP-Protocol-Version:\r\n", "400 -32022", "200 ok"),
    ("a version of bytes", "MCP-Protocol-Version: \u{ff}\r\n", "400 -32020", "200 ok"),
    ("two versions", "MCP-Protocol-Version: 2025-11-25\r\nMCP-Protocol-Version: 2025-06-18\r\n", "400 -32020", "200 ok"),
    ("one version twice", "MCP-Protocol-Version: 2025-11-25\r\nMCP-Protocol-Version: 2025-11-25\r\n", "400 -32020", "200 ok"),
    ("the modern version alone", "MCP-Protocol-Version: 2026-07-28\r\n", "400 -32602", "200 ok"),
    ("an answer nobody can read", "Accept: image/png\r\n", "200 ok", "200 ok"),
];

/// Instead of the `Authorization` and Content-Type that are right.
#[rustfmt::skip]
const INSTEAD: &[Row] = &[
    ("no key", "Content-Type: application/json\r\n", "200 unauthorized", "401 unauthorized"),
    ("only X-API-Key", "Content-Type: application/json\r\nX-API-Key: KEY\r\n", "200 ok", "200 ok"),
    ("an empty Authorization", "Content-Type: application/json\r\nAuthorization:\r\n", "401 unauthorized", "401 unauthorized"),
    ("a scheme without a key", "Content-Type: application/json\r\nAuthorization: Bearer\r\n", "401 unauthorized", "401 unauthorized"),
    ("a key without a scheme", "Content-Type: application/json\r\nAuthorization: KEY\r\n", "401 unauthorized", "401 unauthorized"),
    ("another scheme", "Content-Type: application/json\r\nAuthorization: Basic KEY\r\n", "401 unauthorized", "401 unauthorized"),
    ("the scheme in small letters", "Content-Type: application/json\r\nAuthorization: bearer KEY\r\n", "200 ok", "200 ok"),
    ("two keys in one", "Content-Type: application/json\r\nAuthorization: Bearer KEY, Bearer OTHER\r\n", "401 unauthorized", "401 unauthorized"),
    ("a key and a word", "Content-Type: application/json\r\nAuthorization: Bearer KEY x\r\n", "401 unauthorized", "401 unauthorized"),
    ("a key in quotes", "Content-Type: application/json\r\nAuthorization: Bearer \"KEY\"\r\n", "401 unauthorized", "401 unauthorized"),
    ("a key of bytes", "Content-Type: application/json\r\nAuthorization: Bearer \u{ff}\u{fe}\r\n", "401 unauthorized", "401 unauthorized"),
    ("a huge key", "Content-Type: application/json\r\nAuthorization: Bearer HUGE\r\n", "401 unauthorized", "401 unauthorized"),
    ("a token of somebody else", "Content-Type: application/json\r\nAuthorization: Bearer eyJhbGciOiJub25lIn0.e30.\r\n", "401 unauthorized", "401 unauthorized"),
    ("a key never issued", "Content-Type: application/json\r\nAuthorization: Bearer GONE\r\n", "401 unauthorized", "401 unauthorized"),
    ("a key with a typo", "Content-Type: application/json\r\nAuthorization: Bearer KEYx\r\n", "401 unauthorized", "401 unauthorized"),
    ("an owner's key", "Content-Type: application/json\r\nAuthorization: Bearer OWNER\r\n", "403 forbidden", "403 forbidden"),
    ("a bare key of an owner", "Content-Type: application/json\r\nX-API-Key: OWNER\r\n", "403 forbidden", "403 forbidden"),
    ("no Content-Type", "Authorization: Bearer KEY\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("an empty one", "Authorization: Bearer KEY\r\nContent-Type:\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("plain text", "Authorization: Bearer KEY\r\nContent-Type: text/plain\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("a form", "Authorization: Bearer KEY\r\nContent-Type: application/x-www-form-urlencoded\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("a form in parts", "Authorization: Bearer KEY\r\nContent-Type: multipart/form-data; boundary=x\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("something like JSON", "Authorization: Bearer KEY\r\nContent-Type: application/jsonp\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("a list of kinds", "Authorization: Bearer KEY\r\nContent-Type: application/json, text/plain\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("a kind of bytes", "Authorization: Bearer KEY\r\nContent-Type: \u{ff}\r\n", "415 unsupported_media", "415 unsupported_media"),
    ("JSON with a charset", "Authorization: Bearer KEY\r\nContent-Type: Application/JSON ;charset=utf-8\r\n", "200 ok", "200 ok"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_odd_header_has_its_one_answer_at_both_doors() {
    let bench = Bench::open().await;
    let other = bench.house.register().await.key;
    let right = "Content-Type: application/json\r\nAuthorization: Bearer KEY\r\n";
    let rows = BESIDE.iter().map(|row| (right, row)).chain(INSTEAD.iter().map(|row| ("", row)));
    let gone = super::never_issued();
    let mut verdict = Verdict::default();
    let before = bench.rows().await;
    for (right, (what, lines, at_mcp, over_rest)) in rows {
        let lines = format!("{right}{lines}")
            .replace("KEY", &bench.agent.key)
            .replace("OTHER", &other)
            .replace("OWNER", &bench.agent.owner_key)
            .replace("HUGE", &"x".repeat(20_000))
            .replace("GONE", &gone);
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i"}}"#;
        for (path, body, expected) in [("/mcp", call, at_mcp), ("/api/v1/tools/who_am_i", "{}", over_rest)] {
            let what = format!("{what} at {path}");
            let length = body.len();
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
            );
            let exchange =
                exchange(&bench.address, &request, false).await.unwrap_or_else(|end| panic!("{what}: {end}"));
            let answer = &exchange.answer;
            verdict.judge(&what, expected, &said(answer));
            verdict.hold(&what, exchange.after.is_empty(), &exchange.after);
            verdict.hold(&what, answer.header("x-request-id").is_some(), "no request id");
            let challenged = answer.header("www-authenticate").is_some();
            verdict.hold(&what, challenged == (answer.status == 401), "a challenge that does not fit");
        }
        verdict.hold(what, bench.rows().await == before, "stored something");
    }
    verdict.end(2 * 60);
}
