//! Numbers, texts, ids, cursors and objects that no tool takes, as arguments of tools.

use super::said::said;
use super::wire::exchange;
use super::{Bench, Verdict};

/// What it is, the tool, its arguments, the answer over REST. Over MCP the same word comes as the tool's answer, but
/// where the JSON itself cannot be read: there it is -32700, and -32602 where there are no arguments at all.
type Row = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const NUMBERS: &[Row] = &[
    ("a fraction", "mailbox_check", r#"{"since":5.5}"#, "422 validation_error"),
    ("a word", "mailbox_check", r#"{"since":"abc"}"#, "422 validation_error"),
    ("an empty text", "mailbox_check", r#"{"since":""}"#, "422 validation_error"),
    ("true", "mailbox_check", r#"{"since":true}"#, "422 validation_error"),
    ("a list", "mailbox_check", r#"{"since":[5]}"#, "422 validation_error"),
    ("an object", "mailbox_check", r#"{"since":{}}"#, "422 validation_error"),
    ("1e400", "mailbox_check", r#"{"since":1e400}"#, "400 malformed_request"),
    ("-1e400", "mailbox_check", r#"{"since":-1e400}"#, "400 malformed_request"),
    ("2^53", "mailbox_check", r#"{"since":9007199254740992}"#, "422 validation_error"),
    ("2^53 as text", "mailbox_check", r#"{"since":"9007199254740992"}"#, "422 validation_error"),
    ("2^63", "mailbox_check", r#"{"since":9223372036854775808}"#, "422 validation_error"),
    ("2^64", "mailbox_check", r#"{"since":18446744073709551616}"#, "422 validation_error"),
    ("1e30", "mailbox_check", r#"{"since":1e30}"#, "422 validation_error"),
    ("a space behind", "mailbox_check", r#"{"since":"5 "}"#, "422 validation_error"),
    ("a space before", "mailbox_check", r#"{"since":" 5"}"#, "422 validation_error"),
    ("a sign", "mailbox_check", r#"{"since":"+5"}"#, "422 validation_error"),
    ("hexadecimal", "mailbox_check", r#"{"since":"0x5"}"#, "422 validation_error"),
    ("other digits", "mailbox_check", r#"{"since":"\u0665"}"#, "422 validation_error"),
    ("a separator", "mailbox_check", r#"{"since":"1_000"}"#, "422 validation_error"),
    ("a fraction as text", "mailbox_check", r#"{"since":"5.5"}"#, "422 validation_error"),
    ("NaN as text", "mailbox_check", r#"{"since":"NaN"}"#, "422 validation_error"),
    ("a cursor below zero", "mailbox_check", r#"{"since":-1}"#, "422 validation_error"),
    ("a cursor below zero as text", "mailbox_check", r#"{"since":"-1"}"#, "422 validation_error"),
    ("a limit of 0", "mailbox_check", r#"{"limit":0}"#, "422 validation_error"),
    ("a limit below zero", "mailbox_check", r#"{"limit":-5}"#, "422 validation_error"),
    ("a limit too high", "mailbox_check", r#"{"limit":100000}"#, "422 validation_error"),
    ("a wait that is a word", "mailbox_check", r#"{"wait":"long"}"#, "422 validation_error"),
    ("half a second of wait", "mailbox_check", r#"{"wait":0.5}"#, "422 validation_error"),
    ("a lease of 0", "mailbox_claim", r#"{"lease_seconds":0}"#, "422 validation_error"),
    ("a lease without end", "mailbox_claim", r#"{"lease_seconds":1e9}"#, "422 validation_error"),
    ("-0", "mailbox_check", r#"{"since":-0}"#, "200 ok"),
    ("5.0", "mailbox_check", r#"{"since":5.0}"#, "200 ok"),
    ("5e0", "mailbox_check", r#"{"since":5e0}"#, "200 ok"),
    ("a number as text", "mailbox_check", r#"{"since":"5"}"#, "200 ok"),
    ("null", "mailbox_check", r#"{"since":null}"#, "200 ok"),
    ("a cursor beyond the head", "mailbox_check", r#"{"since":9007199254740991,"wait":25}"#, "200 ok"),
];

#[rustfmt::skip]
const TEXTS: &[Row] = &[
    ("NUL", "register", r#"{"agent_name":"a\u0000b"}"#, "422 validation_error"),
    ("NUL as a name", "register", r#"{"\u0000":1}"#, "422 validation_error"),
    ("a lone surrogate", "register", r#"{"agent_name":"\ud800"}"#, "400 malformed_request"),
    ("surrogates the wrong way round", "register", r#"{"agent_name":"\udc00\ud800"}"#, "400 malformed_request"),
    ("a lone surrogate as a name", "register", r#"{"\udfff":1}"#, "400 malformed_request"),
    ("a byte that is no UTF-8", "register", "{\"agent_name\":\"\u{ff}\"}", "400 malformed_request"),
    ("an overlong slash", "register", "{\"agent_name\":\"\u{c0}\u{af}\"}", "400 malformed_request"),
    ("an overlong NUL", "register", "{\"agent_name\":\"\u{c0}\u{80}\"}", "400 malformed_request"),
    ("a surrogate in UTF-8", "register", "{\"agent_name\":\"\u{ed}\u{a0}\u{80}\"}", "400 malformed_request"),
    ("beyond the last character", "register", "{\"agent_name\":\"\u{f4}\u{90}\u{80}\u{80}\"}", "400 malformed_request"),
    ("a name that turns the line", "register", r#"{"agent_name":"a\u202eb"}"#, "422 validation_error"),
    ("a name that isolates", "register", r#"{"agent_name":"a\u2066b"}"#, "422 validation_error"),
    ("a byte order mark in a name", "register", r#"{"agent_name":"\ufeffa"}"#, "422 validation_error"),
    ("a control character in a name", "register", r#"{"agent_name":"a\u0007b"}"#, "422 validation_error"),
    ("a line break in a name", "register", r#"{"agent_name":"a\nb"}"#, "422 validation_error"),
    ("an empty name is none", "register", r#"{"agent_name":""}"#, "200 ok"),
    ("a name of spaces is none", "register", r#"{"agent_name":"   "}"#, "200 ok"),
    ("a name without an end", "register", r#"{"agent_name":"HUGE"}"#, "422 validation_error"),
    ("a name that is a number", "register", r#"{"agent_name":5}"#, "422 validation_error"),
    ("a name that is a list", "register", r#"{"agent_name":["a"]}"#, "422 validation_error"),
    ("no body to send", "mailbox_send", r#"{"recipient_agent_id":"ME"}"#, "422 validation_error"),
    ("an empty body to send", "mailbox_send", r#"{"recipient_agent_id":"ME","body":""}"#, "422 validation_error"),
    ("NUL in a body", "mailbox_send", r#"{"recipient_agent_id":"ME","body":"a\u0000"}"#, "422 validation_error"),
    ("a body that is an object", "mailbox_send", r#"{"recipient_agent_id":"ME","body":{}}"#, "422 validation_error"),
    ("a body too long", "mailbox_send", r#"{"recipient_agent_id":"ME","body":"HUGE"}"#, "400 message_too_large"),
    ("a part that is a text", "mailbox_send", r#"{"recipient_agent_id":"ME","body":"x","parts":["a"]}"#, "422 validation_error"),
    ("parts that are an object", "mailbox_send", r#"{"recipient_agent_id":"ME","body":"x","parts":{}}"#, "422 validation_error"),
    ("a deadline that is a word", "mailbox_send", r#"{"recipient_agent_id":"ME","body":"x","ack_deadline":"soon"}"#, "422 validation_error"),
    ("an empty key of a retry", "mailbox_send", r#"{"recipient_agent_id":"ME","body":"x","client_message_id":""}"#, "422 validation_error"),
];

#[rustfmt::skip]
const IDS: &[Row] = &[
    ("an empty id", "mailbox_send", r#"{"recipient_agent_id":"","body":"x"}"#, "422 validation_error"),
    ("an id that is a word", "mailbox_send", r#"{"recipient_agent_id":"writer","body":"x"}"#, "422 validation_error"),
    ("an id in braces", "mailbox_send", r#"{"recipient_agent_id":"{ME}","body":"x"}"#, "422 validation_error"),
    ("an id as a URN", "mailbox_send", r#"{"recipient_agent_id":"urn:uuid:ME","body":"x"}"#, "422 validation_error"),
    ("an id with a space", "mailbox_send", r#"{"recipient_agent_id":"ME ","body":"x"}"#, "422 validation_error"),
    ("an id without dashes", "mailbox_send", r#"{"recipient_agent_id":"00000000000070008000000000000001","body":"x"}"#, "422 validation_error"),
    ("half an id", "mailbox_send", r#"{"recipient_agent_id":"00000000-0000-7000","body":"x"}"#, "422 validation_error"),
    ("an id that is a number", "mailbox_send", r#"{"recipient_agent_id":5,"body":"x"}"#, "422 validation_error"),
    ("an id nobody has", "mailbox_send", r#"{"recipient_agent_id":"00000000-0000-7000-8000-000000000001","body":"x"}"#, "404 not_found"),
    ("nobody to send to", "mailbox_send", r#"{"body":"x"}"#, "422 validation_error"),
    ("no messages to ack", "mailbox_ack", r#"{"message_ids":[]}"#, "422 validation_error"),
    ("a message id that is none", "mailbox_ack", r#"{"message_ids":["x"]}"#, "422 validation_error"),
    ("a message id that is null", "mailbox_ack", r#"{"message_ids":[null]}"#, "422 validation_error"),
    ("message ids as a text", "mailbox_ack", r#"{"message_ids":"x"}"#, "422 validation_error"),
    ("no message ids", "mailbox_ack", "{}", "422 validation_error"),
    ("a run that is none", "mailbox_claim", r#"{"run_id":""}"#, "422 validation_error"),
    ("a key of bytes", "who_am_i", "{\"box_key\":\"\u{ff}\"}", "400 malformed_request"),
    ("a key that is a number", "who_am_i", r#"{"box_key":5}"#, "422 validation_error"),
    ("an empty key", "who_am_i", r#"{"box_key":""}"#, "401 unauthorized"),
    ("another key than the header's", "who_am_i", r#"{"box_key":"GONE"}"#, "401 unauthorized"),
];

#[rustfmt::skip]
const OBJECTS: &[Row] = &[
    ("a field we do not know", "register", r#"{"agent_nam":"a"}"#, "422 unknown_field"),
    ("an empty field", "register", r#"{"":1}"#, "422 unknown_field"),
    ("a field in capitals", "register", r#"{"AGENT_NAME":"a"}"#, "422 unknown_field"),
    ("a field of objects' own", "register", r#"{"__proto__":{}}"#, "422 unknown_field"),
    ("a field given twice", "register", r#"{"agent_name":"a","agent_name":"a"}"#, "422 validation_error"),
    ("a field given twice, once in escapes", "register", r#"{"agent_name":"a","\u0061gent_name":"a"}"#, "422 validation_error"),
    ("a field given twice inside", "mailbox_send", r#"{"recipient_agent_id":"ME","body":"x","parts":[{"text":"a","text":"b"}]}"#, "422 validation_error"),
    ("33 levels", "register", "{\"a\":DEEP32}", "422 validation_error"),
    ("1,000 levels", "register", "{\"a\":DEEP1000}", "422 validation_error"),
    ("half an object", "register", "{", "400 malformed_request"),
    ("a trailing comma", "register", "{\"agent_name\":\"a\",}", "400 malformed_request"),
    ("two objects", "register", "{}{}", "400 malformed_request"),
    ("a word", "register", "agent", "400 malformed_request"),
    ("a list", "register", "[]", "422 validation_error"),
    ("a text", "register", "\"{}\"", "422 validation_error"),
    ("a number", "register", "5", "422 validation_error"),
    ("true", "register", "true", "422 validation_error"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_argument_that_no_tool_takes_has_its_one_answer_at_both_doors() {
    let bench = Bench::open().await;
    let mut verdict = Verdict::default();
    judge(&bench, &mut verdict).await;
    verdict.end(3 * 95);
}

/// All rows, over REST and in both eras of MCP.
pub async fn judge(bench: &Bench, verdict: &mut Verdict) {
    let gone = super::never_issued();
    for (what, tool, arguments, over_rest) in [NUMBERS, TEXTS, IDS, OBJECTS].into_iter().flatten() {
        let before = bench.rows().await;
        let arguments = arguments
            .replace("ME", &bench.agent.id)
            .replace("GONE", &gone)
            .replace("HUGE", &"x".repeat(20_000))
            .replace("DEEP32", &format!("{}{}", "[".repeat(32), "]".repeat(32)))
            .replace("DEEP1000", &format!("{}{}", "[".repeat(1000), "]".repeat(1000)));
        let at_mcp = at_mcp(over_rest, &arguments);
        for (door, expected) in [("REST", *over_rest), ("2025-11-25", &at_mcp), ("2026-07-28", &at_mcp)] {
            let what = format!("{what} ({tool}, {door})");
            let request = request(door, tool, &arguments, &bench.agent.key);
            let exchange =
                exchange(&bench.address, &request, false).await.unwrap_or_else(|end| panic!("{what}: {end}"));
            verdict.judge(&what, expected, &said(&exchange.answer));
            verdict.hold(&what, exchange.after.is_empty(), &exchange.after);
        }
        if *over_rest != "200 ok" {
            verdict.hold(what, bench.rows().await == before, "stored something");
        }
    }
}

fn at_mcp(over_rest: &str, arguments: &str) -> String {
    let (_, word) = over_rest.split_once(' ').unwrap();
    match word {
        "malformed_request" => "400 -32700".into(),
        _ if !arguments.starts_with('{') => "200 -32602".into(),
        word => format!("200 {word}"),
    }
}

fn request(door: &str, tool: &str, arguments: &str, key: &str) -> String {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let call = |meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}}}"#
        )
    };
    let (path, headers, body) = match door {
        "REST" => (format!("/api/v1/tools/{tool}"), String::new(), arguments.to_owned()),
        "2025-11-25" => ("/mcp".into(), "MCP-Protocol-Version: 2025-11-25\r\n".into(), call("{}")),
        _ => {
            let named = format!("Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
            ("/mcp".into(), format!("MCP-Protocol-Version: 2026-07-28\r\n{named}"), call(meta))
        }
    };
    let length = body.chars().count();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    )
}
