//! Messages that are no JSON-RPC, or no MCP, at `/mcp`.

use super::said::said;
use super::wire::exchange;
use super::{Bench, Verdict};

/// What it is, the headers beside `Content-Type`, the body, the answer. `MODERN` stands for the headers and `META`
/// for the `_meta` that protocol 2026-07-28 asks for, `CALL` for the headers of a modern call of `who_am_i`.
type Row = (&'static str, &'static str, &'static str, &'static str);

const OLD: &str = "MCP-Protocol-Version: 2025-11-25\r\n";
const NEW: &str = "MCP-Protocol-Version: 2026-07-28\r\n";

#[rustfmt::skip]
const JSON: &[Row] = &[
    ("no body", OLD, "", "400 -32700"),
    ("white space", OLD, "  \n", "400 -32700"),
    ("half an object", OLD, "{", "400 -32700"),
    ("a word", OLD, "hello", "400 -32700"),
    ("single quotes", OLD, "{'jsonrpc':'2.0'}", "400 -32700"),
    ("a trailing comma", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#, "400 -32700"),
    ("a comment", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping"/**/}"#, "400 -32700"),
    ("two objects", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#, "400 -32700"),
    ("two lines", OLD, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{}", "400 -32700"),
    ("a byte order mark", OLD, "\u{ef}\u{bb}\u{bf}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", "400 -32700"),
    ("UTF-16", OLD, "\u{ff}\u{fe}{\u{0}}\u{0}", "400 -32700"),
    ("bytes that are no UTF-8", OLD, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{ff}\"}", "400 -32700"),
    ("an overlong slash", OLD, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{c0}\u{af}\"}", "400 -32700"),
    ("a surrogate in UTF-8", OLD, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{ed}\u{a0}\u{80}\"}", "400 -32700"),
    ("a lone surrogate", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, "400 -32700"),
    ("a lone low surrogate", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"\udc00"}"#, "400 -32700"),
    ("a line break in a text", OLD, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}", "400 -32700"),
    ("an escape that is none", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"\x"}"#, "400 -32700"),
    ("NaN", OLD, r#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#, "400 -32700"),
    ("a number with a leading zero", OLD, r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#, "400 -32700"),
    ("a form", OLD, "jsonrpc=2.0&id=1&method=ping", "400 -32700"),
];

#[rustfmt::skip]
const ENVELOPES: &[Row] = &[
    ("a batch", OLD, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "400 -32600"),
    ("a modern batch", NEW, r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#, "400 -32600"),
    ("a batch of the time of batches", "MCP-Protocol-Version: 2025-03-26\r\n", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "400 -32600"),
    ("an empty batch", OLD, "[]", "400 -32600"),
    ("null", OLD, "null", "400 -32600"),
    ("a number", OLD, "1", "400 -32600"),
    ("a text", OLD, r#""ping""#, "400 -32600"),
    ("an empty object", OLD, "{}", "400 -32600"),
    ("no jsonrpc", OLD, r#"{"id":1,"method":"ping"}"#, "400 -32600"),
    ("jsonrpc 1.0", OLD, r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "400 -32600"),
    ("jsonrpc as a number", OLD, r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, "400 -32600"),
    ("jsonrpc null", OLD, r#"{"jsonrpc":null,"id":1,"method":"ping"}"#, "400 -32600"),
    ("id null", OLD, r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "400 -32600"),
    ("id 1.5", OLD, r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "400 -32600"),
    ("id 1e3", OLD, r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, "400 -32600"),
    ("id true", OLD, r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "400 -32600"),
    ("id a list", OLD, r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "400 -32600"),
    ("id an object", OLD, r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "400 -32600"),
    ("NUL in the id", OLD, r#"{"jsonrpc":"2.0","id":"\u0000","method":"ping"}"#, "400 -32600"),
    ("an empty id", OLD, r#"{"jsonrpc":"2.0","id":"","method":"ping"}"#, "200 ok"),
    ("an id of many digits", OLD, r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}"#, "200 ok"),
    ("an id below zero", OLD, r#"{"jsonrpc":"2.0","id":-0,"method":"ping"}"#, "200 ok"),
    ("no method", OLD, r#"{"jsonrpc":"2.0","id":1}"#, "400 -32600"),
    ("method null", OLD, r#"{"jsonrpc":"2.0","id":1,"method":null}"#, "400 -32600"),
    ("method a number", OLD, r#"{"jsonrpc":"2.0","id":1,"method":5}"#, "400 -32600"),
    ("method an object", OLD, r#"{"jsonrpc":"2.0","id":1,"method":{}}"#, "400 -32600"),
    ("NUL in the method", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping\u0000"}"#, "400 -32600"),
    ("an empty method", OLD, r#"{"jsonrpc":"2.0","id":1,"method":""}"#, "200 -32601"),
    ("a method in capitals", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"PING"}"#, "200 -32601"),
    ("two ids", OLD, r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, "400 -32600"),
    ("two methods", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, "400 -32600"),
    ("two methods, one in escapes", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"ping"}"#, "400 -32600"),
    ("two params", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#, "400 -32600"),
    ("two members we do not know", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":2}"#, "400 -32600"),
    ("a member we do not know", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":1}"#, "200 ok"),
    ("a request with a result", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, "400 -32600"),
    ("an answer to nothing", OLD, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "202 -"),
    ("an error to nothing", OLD, r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, "202 -"),
    ("a modern answer to nothing", NEW, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "400 -32600"),
    ("an answer without an id", OLD, r#"{"jsonrpc":"2.0","result":{}}"#, "400 -32600"),
    ("a notification", OLD, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "202 -"),
    ("a notification we do not know", OLD, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "202 -"),
    ("a call without an id", OLD, r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"register"}}"#, "400 -32600"),
    ("a modern call without an id", NEW, r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"register"}}"#, "400 -32600"),
    ("a notification of another time", "MCP-Protocol-Version: 1999-01-01\r\n", r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "400 -32022"),
];

#[rustfmt::skip]
const PARAMS: &[Row] = &[
    ("params null", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#, "200 ok"),
    ("params a list", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, "200 -32602"),
    ("params a text", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"x"}"#, "200 -32602"),
    ("params a number", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}"#, "200 -32602"),
    ("no tool", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, "200 -32602"),
    ("a tool that is a number", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}"#, "200 -32602"),
    ("a tool that is not there", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gone"}}"#, "200 -32602"),
    ("an empty tool", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}"#, "200 -32602"),
    ("a tool in capitals", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Register"}}"#, "200 -32602"),
    ("a tool with a space", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register "}}"#, "200 -32602"),
    ("two tools", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","name":"register"}}"#, "400 -32600"),
    ("NUL in the tool", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register\u0000"}}"#, "400 -32600"),
    ("arguments a list", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","arguments":[]}}"#, "200 -32602"),
    ("arguments a text", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","arguments":"{}"}}"#, "200 -32602"),
    ("arguments false", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","arguments":false}}"#, "200 -32602"),
    ("arguments twice", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","arguments":{},"arguments":{}}}"#, "400 -32600"),
    ("a progress token that is a list", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","_meta":{"progressToken":[]}}}"#, "200 -32602"),
    ("a progress token of 1.5", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","_meta":{"progressToken":1.5}}}"#, "200 -32602"),
    ("a key twice in _meta", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register","_meta":{"a":1,"a":2}}}"#, "400 -32600"),
    ("a cursor", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#, "200 -32602"),
    ("an empty cursor", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":""}}"#, "200 -32602"),
    ("a cursor that is a number", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":5}}"#, "200 -32602"),
    ("a cursor that is null", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null}}"#, "200 ok"),
    ("no version to begin with", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, "200 -32602"),
    ("a version that is a number", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}"#, "200 -32602"),
    ("a version to come", "", r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2099-01-01"}}"#, "200 ok"),
    ("an unknown method", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"gone"}"#, "200 -32601"),
    ("resources", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, "200 -32601"),
    ("levels of logging", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#, "200 -32601"),
];

#[rustfmt::skip]
const ERAS: &[Row] = &[
    ("a modern list", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "200 ok"),
    ("a modern call", MODERN_CALL, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i",META}}"#, "200 unauthorized"),
    ("its name in base64", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: =?base64?d2hvX2FtX2k=?=\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i",META}}"#, "200 unauthorized"),
    ("its name in broken base64", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: =?base64?d2hv*?=\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i",META}}"#, "400 -32020"),
    ("no version header", "Mcp-Method: tools/list\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "400 -32020"),
    ("an old header with a modern _meta", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "400 -32020"),
    ("no method header", NEW, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "400 -32020"),
    ("another method header", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "400 -32020"),
    ("a method header in capitals", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: TOOLS/LIST\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "400 -32020"),
    ("two method headers", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nMcp-Method: tools/list\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "400 -32020"),
    ("a method header of bytes", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: \u{ff}\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#, "400 -32020"),
    ("no name header", MODERN_METHOD, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i",META}}"#, "400 -32020"),
    ("another name header", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: register\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i",META}}"#, "400 -32020"),
    ("two name headers", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: who_am_i\r\nMcp-Name: who_am_i\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i",META}}"#, "400 -32020"),
    ("no _meta", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#, "400 -32602"),
    ("no params", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, "400 -32602"),
    ("_meta a list", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":[]}}"#, "400 -32602"),
    ("no version in _meta", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}"#, "400 -32602"),
    ("a version that is a number", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":5,"io.modelcontextprotocol/clientCapabilities":{}}}}"#, "400 -32602"),
    ("no capabilities in _meta", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#, "400 -32602"),
    ("capabilities that are a list", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}}"#, "400 -32602"),
    ("a version of another time", "MCP-Protocol-Version: 1999-01-01\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, "400 -32022"),
    ("a version to come, twice over", "MCP-Protocol-Version: 2099-01-01\r\nMcp-Method: tools/list\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}"#, "400 -32022"),
    ("an old version in _meta", "MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/list\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}}}"#, "400 -32022"),
    ("discovery without headers", "", r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#, "400 -32020"),
    ("discovery in an old header", OLD, r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#, "400 -32602"),
    ("a modern ping", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: ping\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{META}}"#, "404 -32601"),
    ("a modern beginning", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: initialize\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28",META}}"#, "404 -32601"),
    ("modern resources", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/read\r\nMcp-Name: x:y\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y",META}}"#, "404 -32601"),
    ("modern listening", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{META}}"#, "404 -32601"),
    ("a modern cursor", MODERN_LIST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x",META}}"#, "200 -32602"),
    ("a modern tool that is not there", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: gone\r\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gone",META}}"#, "200 -32602"),
];

const MODERN_LIST: &str = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
const MODERN_METHOD: &str = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n";
const MODERN_CALL: &str =
    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: who_am_i\r\n";
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_that_is_no_request_of_mcp_has_its_one_answer() {
    let bench = Bench::open().await;
    let mut verdict = Verdict::default();
    judge(&bench, &mut verdict).await;
    verdict.end(2 * 115);
}

/// All rows, at both addresses of the endpoint.
pub async fn judge(bench: &Bench, verdict: &mut Verdict) {
    let before = bench.rows().await;
    for (what, headers, body, expected) in [JSON, ENVELOPES, PARAMS, ERAS].into_iter().flatten() {
        for path in ["/mcp", "/o/public/mcp"] {
            let body = body.replace("META", META);
            let length = body.chars().count();
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
            );
            let what = format!("{what} at {path}");
            let exchange =
                exchange(&bench.address, &request, false).await.unwrap_or_else(|end| panic!("{what}: {end}"));
            verdict.judge(&what, expected, &said(&exchange.answer));
            verdict.hold(&what, exchange.after.is_empty(), &exchange.after);
        }
        verdict.hold(what, bench.rows().await == before, "stored something");
    }
}
