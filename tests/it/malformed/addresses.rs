//! Paths, methods and queries that lead nowhere.

use super::said::said;
use super::wire::exchange;
use super::{Bench, Verdict};

/// What it is, method and target, the answer.
type Row = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const PATHS: &[Row] = &[
    ("an unknown path", "GET /gone", "404 not_found"),
    ("an unknown path of the API", "GET /api/v1/gone", "404 not_found"),
    ("an unknown version of the API", "GET /api/v2/whoami", "404 not_found"),
    ("an unknown tool", "POST /api/v1/tools/gone", "404 not_found"),
    ("no tool", "POST /api/v1/tools/", "404 not_found"),
    ("a tool in capitals", "POST /api/v1/tools/WHO_AM_I", "404 not_found"),
    ("a tool that is a route", "POST /api/v1/tools/mailbox_summary", "404 not_found"),
    ("a slash behind", "GET /api/v1/whoami/", "404 not_found"),
    ("a slash behind a tool", "POST /api/v1/tools/who_am_i/", "404 not_found"),
    ("a slash behind /mcp", "POST /mcp/", "404 not_found"),
    ("more behind /mcp", "POST /mcp/x", "404 not_found"),
    ("two slashes before", "GET //api/v1/whoami", "404 not_found"),
    ("two slashes inside", "GET /api//v1/whoami", "404 not_found"),
    ("two slashes before /mcp", "POST //mcp", "404 not_found"),
    ("a dot inside", "GET /api/./v1/whoami", "404 not_found"),
    ("two dots inside", "GET /api/v1/../v1/whoami", "404 not_found"),
    ("two dots in escapes", "GET /api/v1/%2e%2e/v1/whoami", "404 not_found"),
    ("dots up and out", "GET /../../etc/passwd", "404 not_found"),
    ("a slash in escapes", "GET /api/v1%2Fwhoami", "404 not_found"),
    ("a letter in escapes", "GET /api/v1/who%61mi", "404 not_found"),
    ("capitals", "GET /API/V1/WHOAMI", "404 not_found"),
    ("a semicolon", "GET /api/v1/whoami;x=1", "404 not_found"),
    ("a backslash", "GET /api\\v1\\whoami", "404 not_found"),
    // Asked without a page behind it, this is a preflight that allows nothing more.
    ("a star", "OPTIONS *", "200 -"),
    ("discovery of an issuer", "GET /.well-known/oauth-authorization-server", "404 not_found"),
    ("discovery below /mcp", "GET /.well-known/oauth-protected-resource/mcp", "404 not_found"),
    ("discovery of OpenID", "POST /.well-known/openid-configuration", "404 not_found"),
    ("a file of its own", "GET /.git/config", "404 not_found"),
    ("the metrics", "GET /metrics", "404 not_found"),
    ("the root", "GET /", "200 ok"),
];

/// Escapes and ids in paths.
#[rustfmt::skip]
const PLACES: &[Row] = &[
    ("a message id that is none", "GET /api/v1/mailbox/messages/x", "422 validation_error"),
    ("a message id in braces", "GET /api/v1/mailbox/messages/%7B00000000-0000-7000-8000-000000000001%7D", "422 validation_error"),
    ("a message nobody has", "GET /api/v1/mailbox/messages/00000000-0000-7000-8000-000000000001", "404 not_found"),
    ("a slash in an id", "GET /api/v1/mailbox/messages/a%2Fb", "422 validation_error"),
    ("NUL in an id", "GET /api/v1/mailbox/messages/%00", "400 malformed_request"),
    ("a byte that is no UTF-8", "GET /api/v1/mailbox/messages/%ff", "400 malformed_request"),
    ("a surrogate", "GET /api/v1/mailbox/messages/%ED%A0%80", "400 malformed_request"),
    ("half an escape", "GET /api/v1/mailbox/messages/%4", "422 validation_error"),
    ("an escape that is none", "GET /api/v1/mailbox/messages/%zz", "422 validation_error"),
    ("an owner's question without its key", "GET /api/v1/agents/x/inbound", "401 unauthorized"),
    ("a tool of bytes", "POST /api/v1/tools/%ff", "400 malformed_request"),
];

#[rustfmt::skip]
const ORGANIZATIONS: &[Row] = &[
    ("another organization", "GET /o/acme/api/v1/whoami", "403 wrong_organization"),
    ("one that does not exist", "GET /o/nowhere/api/v1/whoami", "403 wrong_organization"),
    ("capitals", "GET /o/PUBLIC/api/v1/whoami", "403 wrong_organization"),
    ("a digit first", "GET /o/1st/api/v1/whoami", "403 wrong_organization"),
    ("a name too long", "GET /o/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/api/v1/whoami", "403 wrong_organization"),
    ("a slash in the name", "GET /o/a%2Fb/api/v1/whoami", "403 wrong_organization"),
    ("dots", "GET /o/%2e%2e/api/v1/whoami", "403 wrong_organization"),
    ("a quote", "GET /o/a'b/api/v1/whoami", "403 wrong_organization"),
    ("a byte that is no UTF-8", "GET /o/%ff/api/v1/whoami", "400 malformed_request"),
    ("NUL", "GET /o/%00/api/v1/whoami", "400 malformed_request"),
    ("no name", "GET /o//api/v1/whoami", "403 wrong_organization"),
    ("no path", "GET /o/public", "404 not_found"),
    ("the default one", "GET /o/public/api/v1/whoami", "200 ok"),
    ("another organization at /mcp", "POST /o/acme/mcp", "403 wrong_organization"),
    ("capitals at /mcp", "POST /o/PUBLIC/mcp", "403 wrong_organization"),
    ("a byte that is no UTF-8 at /mcp", "POST /o/%ff/mcp", "404 not_found"),
    ("NUL at /mcp", "POST /o/%00/mcp", "403 wrong_organization"),
    ("no name at /mcp", "POST /o//mcp", "403 wrong_organization"),
];

#[rustfmt::skip]
const QUERIES: &[Row] = &[
    ("an unknown parameter", "GET /api/v1/whoami?x=1", "422 unknown_field"),
    ("one without a value", "GET /api/v1/whoami?x", "422 unknown_field"),
    ("one without a name", "GET /api/v1/whoami?=1", "422 unknown_field"),
    ("only separators", "GET /api/v1/whoami?&&", "200 ok"),
    ("an empty query", "GET /api/v1/whoami?", "200 ok"),
    ("a parameter twice", "GET /api/v1/mailbox/messages?since=0&since=0", "422 validation_error"),
    ("twice, once in escapes", "GET /api/v1/mailbox/messages?since=0&%73ince=0", "422 validation_error"),
    ("a cursor that is a word", "GET /api/v1/mailbox/messages?since=abc", "422 validation_error"),
    ("a cursor below zero", "GET /api/v1/mailbox/messages?since=-1", "422 validation_error"),
    ("an empty cursor", "GET /api/v1/mailbox/messages?since=", "422 validation_error"),
    ("a cursor with a sign", "GET /api/v1/mailbox/messages?since=%2B5", "422 validation_error"),
    ("a cursor with a space", "GET /api/v1/mailbox/messages?since=+5", "422 validation_error"),
    ("a fraction", "GET /api/v1/mailbox/messages?since=5.5", "422 validation_error"),
    ("2^53", "GET /api/v1/mailbox/messages?since=9007199254740992", "422 validation_error"),
    ("an escape that is none", "GET /api/v1/mailbox/messages?since=%zz", "422 validation_error"),
    ("half an escape", "GET /api/v1/mailbox/messages?since=5%", "422 validation_error"),
    ("a byte that is no UTF-8", "GET /api/v1/mailbox/messages?since=%ff", "400 malformed_request"),
    ("a name that is no UTF-8", "GET /api/v1/mailbox/messages?%ff=1", "400 malformed_request"),
    ("NUL", "GET /api/v1/mailbox/messages?since=%00", "422 validation_error"),
    ("NUL in a name", "GET /api/v1/mailbox/messages?a%00=1", "422 validation_error"),
    ("a key", "GET /api/v1/mailbox/messages?box_key=KEY", "422 unknown_field"),
    ("a key under another name", "GET /api/v1/mailbox/messages?api_key=KEY", "422 unknown_field"),
    ("a key as a name", "GET /api/v1/mailbox/messages?KEY=1", "422 unknown_field"),
    ("an owner's key", "GET /api/v1/agents?owner_key=KEY", "422 unknown_field"),
    ("_meta", "GET /api/v1/mailbox/messages?_meta=1", "422 unknown_field"),
    ("a query of a tool", "POST /api/v1/tools/who_am_i?x=1", "422 unknown_field"),
    ("a semicolon between", "GET /api/v1/mailbox/messages?since=0;limit=1", "422 validation_error"),
    ("a list in brackets", "GET /api/v1/mailbox/messages?since[]=0", "422 unknown_field"),
    ("an unknown toolset", "POST /mcp?toolsets=gone", "400 unknown_toolset"),
    ("one toolset of two", "POST /mcp?toolsets=mailbox,gone", "400 unknown_toolset"),
    ("toolsets of bytes", "POST /mcp?toolsets=%ff", "400 malformed_request"),
    ("toolsets in capitals", "POST /mcp?toolsets=MAILBOX", "400 unknown_toolset"),
    ("toolsets in escapes", "POST /mcp?toolsets=%6Dailbox", "200 ok"),
    ("toolsets with spaces", "POST /mcp?toolsets=+mailbox%20,%20", "200 ok"),
    ("their name in escapes", "POST /mcp?%74oolsets=gone", "400 unknown_toolset"),
    ("no toolsets", "POST /mcp?toolsets=", "200 ok"),
    ("something else at /mcp", "POST /mcp?x=1", "200 ok"),
];

/// Methods that a path does not take: the `Allow` header names those it does.
#[rustfmt::skip]
const METHODS: &[(&str, &str, &str)] = &[
    ("reading /mcp", "GET /mcp", "POST"),
    ("a head of /mcp", "HEAD /mcp", "POST"),
    ("deleting /mcp", "DELETE /mcp", "POST"),
    ("putting to /mcp", "PUT /mcp", "POST"),
    ("patching /mcp", "PATCH /mcp", "POST"),
    ("a method of no standard at /mcp", "BREW /mcp", "POST"),
    ("reading /o/public/mcp", "GET /o/public/mcp", "POST"),
    ("reading a tool", "GET /api/v1/tools/who_am_i", "POST"),
    ("deleting a tool", "DELETE /api/v1/tools/who_am_i", "POST"),
    ("posting to whoami", "POST /api/v1/whoami", "GET,HEAD"),
    ("putting to whoami", "PUT /api/v1/whoami", "GET,HEAD"),
    ("tracing whoami", "TRACE /api/v1/whoami", "GET,HEAD"),
    ("deleting mail", "DELETE /api/v1/mailbox/messages", "POST,GET,HEAD"),
    ("reading a claim", "GET /api/v1/mailbox/claim", "POST"),
    ("registering by GET", "GET /api/v1/onboard", "POST"),
    ("posting to a probe", "POST /livez", "GET,HEAD"),
    ("posting to the text for agents", "POST /llms.txt", "GET,HEAD"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_address_that_leads_nowhere_has_its_one_answer() {
    let bench = Bench::open().await;
    let mut verdict = Verdict::default();
    judge(&bench, &mut verdict).await;
    verdict.end(110);
}

/// All rows, with a key that stands.
pub async fn judge(bench: &Bench, verdict: &mut Verdict) {
    let rows = [PATHS, PLACES, ORGANIZATIONS, QUERIES].into_iter().flatten();
    let rows = rows.map(|(what, line, expected)| (what, line, *expected, None));
    let not_allowed = |line: &str| match line.starts_with("HEAD") {
        true => "405 -",
        false => "405 method_not_allowed",
    };
    let methods = METHODS.iter().map(|(what, line, allow)| (what, line, not_allowed(line), Some(*allow)));
    for (what, line, expected, allow) in rows.chain(methods) {
        let before = bench.rows().await;
        let (method, target) = line.split_once(' ').unwrap();
        let target = target.replace("KEY", &bench.agent.key);
        let body = match (method, target.contains("mcp")) {
            ("POST", true) => r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            ("POST" | "PUT" | "PATCH", false) => "{}",
            _ => "",
        };
        let (key, length) = (&bench.agent.key, body.len());
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let exchange =
            exchange(&bench.address, &request, false).await.unwrap_or_else(|end| panic!("{what}: {end}"));
        verdict.judge(what, expected, &said(&exchange.answer));
        verdict.hold(what, exchange.after.is_empty(), &exchange.after);
        let allowed = exchange.answer.header("allow");
        verdict.hold(what, allowed == allow, &format!("allows {allowed:?}"));
        let kept = !target.starts_with("/api/v1/mailbox") && expected == "200 ok";
        verdict.hold(what, kept || bench.rows().await == before, "stored something");
    }
}
