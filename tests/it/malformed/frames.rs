//! Bytes that are no HTTP request, or one that two readers may understand differently.

use super::said::said;
use super::wire::{exchange, pipelined};
use super::{Bench, Verdict};

/// What it is, the bytes, the answer at both doors. `PATH` stands for the door's path, `OK` for headers that are
/// fine, `BODY` for a body that is, `SIZE` for how long that is.
type Row = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // What must be taken, so that the rest means something.
    ("a plain request", "POST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    ("a request in pieces", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", "200 ok"),
    ("chunked in capitals", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: CHUNKED\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", "200 ok"),
    ("an extension of a chunk", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX;a=b\r\nBODY\r\n0\r\n\r\n", "200 ok"),
    ("a trailer", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\nX-After: 1\r\n\r\n", "200 ok"),
    ("an empty line before it", "\r\nPOST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    ("names of headers in capitals", "POST PATH HTTP/1.1\r\nOKCONTENT-LENGTH: SIZE\r\n\r\nBODY", "200 ok"),
    ("the same length twice", "POST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\nContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    ("its own host in the target", "POST http://localhostPATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    // Lengths.
    ("two lengths", "POST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\nContent-Length: 1\r\n\r\nBODY", "400 -"),
    ("a list of lengths", "POST PATH HTTP/1.1\r\nOKContent-Length: SIZE, 1\r\n\r\nBODY", "400 -"),
    ("a list of equal lengths", "POST PATH HTTP/1.1\r\nOKContent-Length: SIZE, SIZE\r\n\r\nBODY", "400 -"),
    ("a length below zero", "POST PATH HTTP/1.1\r\nOKContent-Length: -1\r\n\r\nBODY", "400 -"),
    ("a length with a sign", "POST PATH HTTP/1.1\r\nOKContent-Length: +SIZE\r\n\r\nBODY", "400 -"),
    ("a length in hexadecimal", "POST PATH HTTP/1.1\r\nOKContent-Length: 0xHEX\r\n\r\nBODY", "400 -"),
    ("a length that is a word", "POST PATH HTTP/1.1\r\nOKContent-Length: many\r\n\r\nBODY", "400 -"),
    ("an empty length", "POST PATH HTTP/1.1\r\nOKContent-Length:\r\n\r\nBODY", "400 -"),
    ("a length of 2^64", "POST PATH HTTP/1.1\r\nOKContent-Length: 18446744073709551616\r\n\r\nBODY", "400 -"),
    ("a length of 2^63", "POST PATH HTTP/1.1\r\nOKContent-Length: 9223372036854775808\r\n\r\nBODY", "413 payload_too_large"),
    ("a length over the limit", "POST PATH HTTP/1.1\r\nOKContent-Length: 9000000\r\n\r\nBODY", "413 payload_too_large"),
    ("a space before the colon", "POST PATH HTTP/1.1\r\nOKContent-Length : SIZE\r\n\r\nBODY", "400 -"),
    // Transfer codings.
    ("length, then chunked", "POST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 bad_request"),
    ("chunked, then length", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\nContent-Length: SIZE\r\n\r\n0\r\n\r\n", "400 bad_request"),
    ("chunked and a length of another request", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET /llms.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 bad_request"),
    ("chunked, identity", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400 -"),
    ("identity, chunked", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", "400 bad_request"),
    ("gzip, chunked", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400 bad_request"),
    ("chunked twice", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 bad_request"),
    ("identity alone", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: identity\r\n\r\nBODY", "400 -"),
    ("gzip alone", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: gzip\r\n\r\nBODY", "400 -"),
    ("chunked with a tab", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding:\tchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", "400 bad_request"),
    ("chunked with a vertical tab", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: \u{b}chunked\r\n\r\n0\r\n\r\n", "400 -"),
    ("chunked in quotes", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "400 -"),
    ("xchunked", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400 -"),
    ("an empty coding", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding:\r\n\r\n0\r\n\r\n", "400 -"),
    ("a space before its colon", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400 -"),
    // Chunks.
    ("a chunk of no size", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\n\r\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    ("a chunk whose size is a word", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nzz\r\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    ("a chunk below zero", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\n-1\r\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    ("a chunk of 0x", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\n0xHEX\r\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    ("a chunk of 2^64", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    ("a chunk longer than said", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\n1\r\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    ("a chunk over the limit", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nFFFFFF\r\nBODYLONG", "413 payload_too_large"),
    ("a chunk's size ended by LF", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    ("an extension with a bare LF", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX;a\nb\r\nBODY\r\n0\r\n\r\n", "400 bad_request"),
    // Hosts and targets.
    ("no host", "POST PATH HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("two hosts", "POST PATH HTTP/1.1\r\nOKHost: localhost\r\nContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("two hosts that differ", "POST PATH HTTP/1.1\r\nOKHost: evil.example\r\nContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("an empty host", "POST PATH HTTP/1.1\r\nHost:\r\nContent-Length: SIZE\r\n\r\nBODY", "403 host_refused"),
    ("a foreign host", "POST PATH HTTP/1.1\r\nHost: evil.example\r\nContent-Length: SIZE\r\n\r\nBODY", "403 host_refused"),
    ("a host with a user", "POST PATH HTTP/1.1\r\nHost: a@localhost\r\nContent-Length: SIZE\r\n\r\nBODY", "403 host_refused"),
    ("a host with a path", "POST PATH HTTP/1.1\r\nHost: localhost/x\r\nContent-Length: SIZE\r\n\r\nBODY", "403 host_refused"),
    ("a list of hosts", "POST PATH HTTP/1.1\r\nHost: localhost, evil.example\r\nContent-Length: SIZE\r\n\r\nBODY", "403 host_refused"),
    ("a port out of range", "POST PATH HTTP/1.1\r\nHost: localhost:99999999\r\nContent-Length: SIZE\r\n\r\nBODY", "403 host_refused"),
    ("a host of bytes", "POST PATH HTTP/1.1\r\nHost: localhost\u{ff}\r\nContent-Length: SIZE\r\n\r\nBODY", "403 host_refused"),
    ("a foreign host in the target", "POST http://evil.examplePATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("a user in the target", "POST http://a@localhostPATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("another scheme in the target", "POST ftp://evil.examplePATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("only a host as the target", "POST localhost:80 HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("a tunnel", "CONNECT localhost:80 HTTP/1.1\r\nOK\r\n", "400 bad_request"),
    ("a target without a slash", "POST xPATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("no target", "POST  HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a space in the target", "POST PATH x HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a NUL in the target", "POST PATH\u{0} HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a fragment in the target", "POST PATH#x HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    // The request line.
    ("HTTP/1.0", "POST PATH HTTP/1.0\r\nOKContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    ("HTTP/1.0 without a host", "POST PATH HTTP/1.0\r\nContent-Length: SIZE\r\n\r\nBODY", "400 bad_request"),
    ("HTTP/1.0 in chunks", "POST PATH HTTP/1.0\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n0\r\n\r\n", "400 -"),
    ("HTTP/1.2", "POST PATH HTTP/1.2\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("HTTP/2.0", "POST PATH HTTP/2.0\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("HTTP/9", "POST PATH HTTP/9\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("http/1.1", "POST PATH http/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("no version", "POST PATH\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    // Who speaks HTTP/2 could not read an answer in HTTP/1.1.
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "closed"),
    ("an unknown method", "BREW PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "405 method_not_allowed"),
    ("a method in small letters", "post PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "405 method_not_allowed"),
    ("no method", " PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a method of signs", "P(ST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a method of bytes", "P\u{d6}ST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("words that are no request", "hello there\r\n\r\n", "400 -"),
    ("the greeting of TLS", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}\r\n\r\n", "400 -"),
    // Header lines.
    ("a folded header", "POST PATH HTTP/1.1\r\nOKX-Long: a\r\n b\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a folded coding", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400 -"),
    ("a NUL in a header", "POST PATH HTTP/1.1\r\nOKX-A: a\u{0}b\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a CR in a header", "POST PATH HTTP/1.1\r\nOKX-A: a\rb\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a DEL in a header", "POST PATH HTTP/1.1\r\nOKX-A: a\u{7f}b\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a header without a colon", "POST PATH HTTP/1.1\r\nOKX-A\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a header without a name", "POST PATH HTTP/1.1\r\nOK: a\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a space in a name", "POST PATH HTTP/1.1\r\nOKX A: a\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a name of bytes", "POST PATH HTTP/1.1\r\nOKX-\u{e9}: a\r\nContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a space before the first header", "POST PATH HTTP/1.1\r\n X: a\r\nOKContent-Length: SIZE\r\n\r\nBODY", "400 -"),
    ("a head too long", "POST PATH HTTP/1.1\r\nOKX-A: LONG\r\nContent-Length: SIZE\r\n\r\nBODY", "431 -"),
    ("too many headers", "POST PATH HTTP/1.1\r\nOKMANYContent-Length: SIZE\r\n\r\nBODY", "431 -"),
    ("a target too long", "POST PATH?LONG HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY", "431 -"),
    ("an expectation we do not know", "POST PATH HTTP/1.1\r\nOKExpect: 200-ok\r\nContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    ("an offer to speak HTTP/2", "POST PATH HTTP/1.1\r\nOKConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
    ("an offer of a web socket", "POST PATH HTTP/1.1\r\nOKConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: SIZE\r\n\r\nBODY", "200 ok"),
];

/// Requests whose sender stops in the middle, and says that nothing more comes.
#[rustfmt::skip]
const CUT: &[Row] = &[
    // Nobody has asked anything yet.
    ("half a request line", "POST PA", "closed"),
    ("half a head", "POST PATH HTTP/1.1\r\nHost: lo", "closed"),
    ("half a body", "POST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\n{", "400 bad_request"),
    ("half a chunk", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX\r\n{", "400 bad_request"),
    ("no last chunk", "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n\r\nHEX\r\nBODY\r\n", "400 bad_request"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_frame_that_is_no_request_has_its_one_answer_at_both_doors() {
    let bench = Bench::open().await;
    let mut verdict = Verdict::default();
    let rows = ROWS.iter().map(|row| (row, false)).chain(CUT.iter().map(|row| (row, true)));
    let before = bench.rows().await;
    for ((what, bytes, expected), is_cut) in rows {
        for door in [Door::Mcp, Door::Rest] {
            let what = format!("{what} {door:?}");
            match exchange(&bench.address, &door.fill(bytes, &bench), is_cut).await {
                Ok(exchange) => {
                    verdict.judge(&what, expected, &said(&exchange.answer));
                    verdict.hold(&what, exchange.after.is_empty(), &exchange.after);
                }
                Err(end) => verdict.judge(&what, expected, end),
            }
        }
        verdict.hold(what, bench.rows().await == before, "stored something");
    }
    verdict.end(2 * 95);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_sent_behind_another_is_judged_like_any() {
    let bench = Bench::open().await;
    let first = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let chunked = "POST PATH HTTP/1.1\r\nOKTransfer-Encoding: chunked\r\n";
    let smuggled = "GET /llms.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for door in [Door::Mcp, Door::Rest] {
        let fill = |text: &str| door.fill(text, &bench);
        let plain = fill("POST PATH HTTP/1.1\r\nOKContent-Length: SIZE\r\n\r\nBODY");
        let both = fill(&format!("{chunked}Content-Length: 4\r\n\r\n0\r\n\r\n{smuggled}"));
        let (half, rest) = both.split_once("chunked\r\n").unwrap();
        // Whole behind the first; and cut, so that its second half arrives once the first is answered.
        for (pieces, expected) in [
            (vec![format!("{first}{plain}")], ["200 ok", "200 ok"]),
            (vec![format!("{first}{both}")], ["200 ok", "400 bad_request"]),
            (
                vec![format!("{first}{}", both.replace("Content-Length: 4\r\n", ""))],
                ["200 ok", "400 bad_request"],
            ),
            (vec![format!("{first}{half}chunked\r\n"), rest.to_owned()], ["200 ok", "400 bad_request"]),
            (vec![first.to_owned(), both.clone()], ["200 ok", "400 bad_request"]),
        ] {
            let answers = pipelined(&bench.address, &pieces).await;
            let answers: Vec<String> = answers.iter().map(said).collect();
            assert_eq!(answers, expected, "{door:?} {pieces:?}");
        }
    }
}

/// All rows, by a way on which a proxy may refuse them first: whatever the answer, it is no fault of the pods'.
pub async fn judge_faults(bench: &Bench, verdict: &mut Verdict) {
    let rows = ROWS.iter().map(|row| (row, false)).chain(CUT.iter().map(|row| (row, true)));
    let before = bench.rows().await;
    for ((what, bytes, expected), is_cut) in rows {
        // A proxy may wait for all of a body that was promised.
        if expected.starts_with("413") {
            continue;
        }
        for door in [Door::Mcp, Door::Rest] {
            let what = format!("{what} {door:?}");
            // A connection that is out of step afterwards is the proxy's affair.
            let Ok(exchange) = exchange(&bench.address, &door.fill(bytes, bench), is_cut).await else {
                continue;
            };
            let answer = exchange.answer;
            // A proxy calls it a bad gateway when the client's own body breaks off under it.
            let by_pod = answer.header("x-request-id").is_some();
            let fault = matches!(answer.status, 503 | 504) || (by_pod && answer.status >= 500);
            verdict.hold(&what, !fault, &answer.head);
        }
    }
    verdict.hold("all frames", bench.rows().await == before, "stored something");
}

/// Where a frame goes.
#[derive(Debug, Clone, Copy)]
enum Door {
    Mcp,
    Rest,
}

impl Door {
    fn fill(self, bytes: &str, bench: &Bench) -> String {
        let (path, body) = match self {
            Door::Mcp => {
                let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i"}}"#;
                ("/mcp", call)
            }
            Door::Rest => ("/api/v1/tools/who_am_i", "{}"),
        };
        let fine = format!(
            "Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n",
            bench.agent.key
        );
        let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
        bytes
            .replace("BODYLONG", &"x".repeat(300_000))
            .replace("PATH", path)
            .replace("OK", &fine)
            .replace("SIZE", &body.len().to_string())
            .replace("HEX", &format!("{:x}", body.len()))
            .replace("BODY", body)
            .replace("LONG", &"x".repeat(40_000))
            .replace("MANY", &many)
    }
}
