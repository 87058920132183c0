//! Input that nobody should send, made for every property of a tool.

use serde_json::{Map, Value, json};
use waypost::call::Entry;

use super::sample;

/// In every rejected value; no answer may hold it.
pub const CANARY: &str = "kanarie7Q";

/// A body and what must become of it.
pub struct Probe {
    pub what: String,
    pub body: Vec<u8>,
    pub fate: Fate,
}

/// What must become of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is refused with one of these codes.
    Refused(&'static [&'static str]),
    /// It is refused as unknown, with a name that exists as the suggestion.
    Suggested,
    /// It is no JSON: 400, over MCP -32700.
    Unread,
    /// It is refused or taken, as its field means it.
    Either,
}

const INVALID: Fate = Fate::Refused(&["validation_error"]);
const INVALID_OR_UNKNOWN: Fate = Fate::Refused(&["validation_error", "unknown_field"]);

/// All of them, around arguments that would be taken. What stands `by_address` is not sent.
pub fn probes(entry: &Entry, good: &Map<String, Value>, by_address: &[&str]) -> Vec<Probe> {
    let mut good = good.clone();
    good.retain(|name, _| !by_address.contains(&name.as_str()));
    let mut probes = whole(entry, &good);
    for (name, schema) in sample::properties(entry) {
        if !by_address.contains(&name) {
            probes.extend(of_property(&good, name, schema));
        }
    }
    probes
}

/// What is wrong wherever it stands.
fn whole(entry: &Entry, good: &Map<String, Value>) -> Vec<Probe> {
    let with = |member: &str| beside(good, member);
    let nested = |depth: usize| with(&format!(r#""x":{}{}"#, "[".repeat(depth), "]".repeat(depth)));
    let key = format!("wpa_{}", "k".repeat(49));
    let secret_key = Probe {
        what: "a key as a field's name".into(),
        body: with(&format!(r#""{key}{CANARY}":1"#)),
        fate: INVALID_OR_UNKNOWN,
    };
    let all = [
        ("NUL in a name", with(r#""a\u0000b":1"#), INVALID_OR_UNKNOWN),
        ("a name given twice", with(r#""x":1,"x":2"#), INVALID_OR_UNKNOWN),
        ("a name given twice inside", with(r#""x":[{"y":1,"y":2}]"#), INVALID_OR_UNKNOWN),
        // The arguments are the first level.
        ("depth 33", nested(32), INVALID_OR_UNKNOWN),
        (
            "depth 10000",
            nested(10_000),
            Fate::Refused(&["validation_error", "unknown_field", "malformed_request", "json_rpc"]),
        ),
        ("a lone surrogate", with(&format!(r#""x":"{CANARY}\ud800""#)), Fate::Unread),
        ("a lone surrogate in a name", with(r#""\udc00":1"#), Fate::Unread),
        ("bad UTF-8", [with(r#""x":"#).as_slice(), b"\"\xff\""].concat(), Fate::Unread),
        ("half an object", format!(r#"{{"{CANARY}":"#).into_bytes(), Fate::Unread),
        (
            "a number beyond all numbers",
            with(r#""x":1e400"#),
            Fate::Refused(&["malformed_request", "json_rpc", "unknown_field"]),
        ),
        ("a list", format!(r#"["{CANARY}"]"#).into_bytes(), Fate::Refused(&["validation_error", "json_rpc"])),
        ("a text", format!(r#""{CANARY}""#).into_bytes(), Fate::Refused(&["validation_error", "json_rpc"])),
        ("too many bytes", padded(good, entry.body_limit + 44 * 1024), Fate::Refused(&["payload_too_large"])),
    ];
    let all = all.into_iter().map(|(what, body, fate)| Probe { what: what.into(), body, fate });
    all.chain([secret_key]).collect()
}

/// What is wrong for one property.
fn of_property(good: &Map<String, Value>, name: &str, schema: &Value) -> Vec<Probe> {
    let probe = |what: &str, value: Value, fate: Fate| {
        let mut arguments = good.clone();
        arguments.insert(name.into(), value);
        Probe {
            what: format!("{name}: {what}"),
            body: Value::Object(arguments).to_string().into_bytes(),
            fate,
        }
    };
    let raw = |what: &str, text: &str, fate: Fate| {
        let mut without = good.clone();
        without.shift_remove(name);
        Probe {
            what: format!("{name}: {what}"),
            body: beside(&without, &format!(r#""{name}":{text}"#)),
            fate,
        }
    };
    let kind = schema["type"].as_str().unwrap_or("any");
    let is_uuid = schema["format"] == "uuid";
    let for_ids = if is_uuid { INVALID } else { Fate::Either };
    let mut probes = vec![
        raw("given twice", &format!("1,\"{name}\":2"), INVALID),
        probe("the text null", text_of(kind, "null"), if kind == "string" { for_ids } else { Fate::Either }),
        probe("an empty text", text_of(kind, ""), if kind == "string" { for_ids } else { Fate::Either }),
        raw("2^53+1", "9007199254740993", Fate::Either),
        raw(
            "beyond all numbers",
            "1e400",
            Fate::Refused(&["malformed_request", "json_rpc", "validation_error"]),
        ),
        // A near miss of a name is answered with a name that exists.
        Probe {
            what: format!("{name}z"),
            body: beside(good, &format!(r#""{name}z":"{CANARY}""#)),
            fate: Fate::Suggested,
        },
    ];
    for wrong in wrong_types(kind) {
        probes.push(probe("of another type", wrong, INVALID));
    }
    if kind == "string" || schema["items"]["type"] == "string" {
        probes.push(probe("NUL", text_of(kind, &format!("{CANARY}\0")), INVALID));
    }
    if sample::is_name(name, schema) {
        let huge = CANARY.repeat(10 * 1024 / CANARY.len());
        probes.push(probe("10 KB", text_of(kind, &huge), INVALID));
    }
    probes
}

/// Values that no reading makes fit.
fn wrong_types(kind: &str) -> Vec<Value> {
    let text = json!(CANARY);
    match kind {
        "string" => vec![json!([CANARY]), json!({ CANARY: 1 }), json!(true)],
        "integer" | "number" => vec![text, json!([CANARY]), json!(true), json!({ "a": CANARY })],
        "boolean" => vec![text, json!(1), json!("true"), json!([CANARY])],
        "array" => vec![text, json!(7), json!({ "a": CANARY })],
        "object" => vec![text, json!(7), json!([CANARY])],
        _ => Vec::new(),
    }
}

fn text_of(kind: &str, text: &str) -> Value {
    if kind == "array" { json!([text]) } else { json!(text) }
}

/// The arguments as JSON, with one more member as it stands.
fn beside(arguments: &Map<String, Value>, member: &str) -> Vec<u8> {
    let text = Value::Object(arguments.clone()).to_string();
    let inside = text.trim_start_matches('{').trim_end_matches('}');
    let comma = if inside.is_empty() { "" } else { "," };
    format!("{{{member}{comma}{inside}}}").into_bytes()
}

/// Good arguments and enough white space for so many bytes.
fn padded(arguments: &Map<String, Value>, bytes: usize) -> Vec<u8> {
    let text = Value::Object(arguments.clone()).to_string();
    format!("{}{}", text, " ".repeat(bytes)).into_bytes()
}
