//! Results as bytes: each part is serialised once and copied into place.

use std::borrow::Cow;
use std::io::Write;

use bytes::Bytes;
use serde_json::{Value, json};

use super::eras::{Era, LEGACY, SUPPORTED};
use super::instructions::INSTRUCTIONS;
use crate::call::Result;
use crate::call::dialect::Dialect;
use crate::call::registry::Ran;

/// How long clients may keep the list of tools and the like: it only changes with a release.
const KEEP_MILLISECONDS: u64 = 300_000;

const MODERN_START: &str = r#"{"resultType":"complete","#;
const MODERN_END: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"waypost","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}}"#
);

/// The JSON-RPC response with this result. `id` is JSON, and so is `members`: those of the result, in the
/// words of its method, without braces (only a legacy result may have none).
pub fn complete(era: Era, id: &str, members: &[u8]) -> Bytes {
    let mut body = Vec::with_capacity(members.len() + id.len() + 256);
    body.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    body.extend_from_slice(id.as_bytes());
    body.extend_from_slice(br#","result":"#);
    let (start, end) = match era {
        Era::Modern => (MODERN_START, MODERN_END),
        Era::Legacy => ("{", "}"),
    };
    body.extend_from_slice(start.as_bytes());
    body.extend_from_slice(members);
    body.extend_from_slice(end.as_bytes());
    body.push(b'}');
    body.into()
}

/// What came of a tool: the answer, or its failure in the toolset's words, as text and as data.
pub fn of_call(era: Era, id: &str, dialect: Dialect, outcome: &Result<Ran>) -> Bytes {
    let (text, is_error) = match outcome {
        Ok(ran) => (Cow::Borrowed(&*ran.answer), false),
        Err(error) => (Cow::Owned(dialect.failure(error).to_string()), true),
    };
    let mut members = Vec::with_capacity(text.len() * 2 + text.len() / 4 + 96);
    members.extend_from_slice(br#""content":[{"type":"text","text":"#);
    write_string(&mut members, &text);
    members.extend_from_slice(br#"}],"structuredContent":"#);
    members.extend_from_slice(text.as_bytes());
    // Writing into memory does not fail.
    let _ = write!(members, r#","isError":{is_error}"#);
    complete(era, id, &members)
}

/// The list of tools, given as a JSON array.
pub fn of_list(era: Era, id: &str, tools: &[u8], is_private: bool) -> Bytes {
    let mut members = Vec::with_capacity(tools.len() + 64);
    if era == Era::Modern {
        let _ = write!(members, "{},", kept(is_private));
    }
    members.extend_from_slice(br#""tools":"#);
    members.extend_from_slice(tools);
    complete(era, id, &members)
}

/// What the server is, to a modern client.
pub fn of_discover(id: &str) -> Bytes {
    let members = format!(
        r#"{},"supportedVersions":{},"capabilities":{{"tools":{{}}}},"instructions":{}"#,
        kept(false),
        json!(SUPPORTED),
        Value::from(INSTRUCTIONS),
    );
    complete(Era::Modern, id, members.as_bytes())
}

/// What the server is, to a legacy client: in the version it asks for, if that is a legacy one.
pub fn of_initialize(id: &str, requested: &str) -> Bytes {
    let version = LEGACY.into_iter().find(|version| *version == requested).unwrap_or(LEGACY[0]);
    let members = format!(
        r#""protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{},"instructions":{}"#,
        json!({ "name": "waypost", "version": env!("CARGO_PKG_VERSION") }),
        Value::from(INSTRUCTIONS),
    );
    complete(Era::Legacy, id, members.as_bytes())
}

/// The answer to a ping, which only the legacy era knows.
pub fn of_ping(id: &str) -> Bytes {
    complete(Era::Legacy, id, b"")
}

/// Whether and how long others may be served the same result.
fn kept(is_private: bool) -> String {
    let scope = if is_private { "private" } else { "public" };
    format!(r#""ttlMs":{KEEP_MILLISECONDS},"cacheScope":"{scope}""#)
}

fn write_string(into: &mut Vec<u8>, text: &str) {
    // Writing text into memory does not fail.
    let _ = serde_json::to_writer(into, text);
}
