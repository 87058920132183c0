//! An example call of a tool, over REST and over MCP.

use serde_json::{Map, Value, json};

use crate::call::{Access, Entry, Method};
use crate::doors::rest::BY_NAME;

/// A curl command that calls the tool at its first route, or by its name.
pub(super) fn curl(entry: &Entry, public_url: &str) -> String {
    let mut arguments = arguments(entry);
    let (method, path) = match entry.spec.routes.first() {
        Some(route) => (route.method, route.path),
        None => (Method::Post, BY_NAME),
    };
    let path: Vec<String> = path.split('/').map(|segment| filled(segment, entry, &mut arguments)).collect();
    let mut address = format!("{public_url}{}", path.join("/"));
    let verb = match method {
        Method::Get => "",
        Method::Post => "X POST",
        Method::Put => "X PUT",
        Method::Delete => "X DELETE",
    };
    let mut lines = credential(entry).into_iter().collect::<Vec<_>>();
    match method {
        Method::Get if !arguments.is_empty() => {
            let pairs = arguments.iter().map(|(name, value)| format!("{name}={}", plain(value)));
            address = format!("'{address}?{}'", pairs.collect::<Vec<_>>().join("&"));
        }
        Method::Post | Method::Put if !arguments.is_empty() => {
            lines.push("-H 'Content-Type: application/json'".into());
            // A quote ends the shell's quoting, stands for itself, and begins it again.
            lines.push(format!("-d '{}'", Value::Object(arguments).to_string().replace('\'', r"'\''")));
        }
        _ => {}
    }
    let unbuffered = if entry.spec.routes.first().is_some_and(|route| route.is_stream) { "N" } else { "" };
    let first = format!("curl -s{unbuffered}{verb} {address}");
    std::iter::once(first).chain(lines).collect::<Vec<_>>().join(" \\\n  ")
}

/// The `tools/call` of it as MCP clients send it, or `None` for what has only routes.
pub(super) fn mcp(entry: &Entry) -> Option<String> {
    let mut arguments = arguments(entry);
    if entry.spec.access == Access::Owner {
        arguments.insert(entry.spec.access.argument().into(), "<owner_key>".into());
    }
    let call = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": { "name": entry.spec.name, "arguments": arguments },
    });
    entry.is_listed().then(|| format!("{call:#}"))
}

fn credential(entry: &Entry) -> Option<String> {
    match entry.spec.access {
        Access::Anyone => None,
        Access::Agent => Some("-H \"Authorization: Bearer $API_KEY\"".into()),
        Access::Owner => Some("-H \"X-Owner-Key: $OWNER_KEY\"".into()),
    }
}

/// The tool's own example, or its required arguments with made values.
fn arguments(entry: &Entry) -> Map<String, Value> {
    if let Some(Ok(Value::Object(own))) = entry.example.map(serde_json::from_str) {
        return own;
    }
    let required = entry.input["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let required = required.filter(|name| *name != entry.spec.access.argument());
    required.map(|name| (name.to_owned(), made(&entry.input["properties"][name]))).collect()
}

/// A segment of a path, with an argument in place of its name in braces.
fn filled(segment: &str, entry: &Entry, arguments: &mut Map<String, Value>) -> String {
    match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
        None => segment.to_owned(),
        Some("tool") => entry.spec.name.to_owned(),
        Some(name) => {
            let value =
                arguments.shift_remove(name).unwrap_or_else(|| made(&entry.input["properties"][name]));
            plain(&value)
        }
    }
}

fn made(schema: &Value) -> Value {
    let chosen = schema.get("default").or_else(|| schema["enum"].get(0));
    match (chosen, schema["type"].as_str(), schema["format"].as_str()) {
        (Some(value), ..) => value.clone(),
        (_, Some("array"), _) => json!([made(&schema["items"])]),
        (_, Some("integer"), _) => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        (_, Some("boolean"), _) => true.into(),
        (_, Some("object"), _) => json!({}),
        (_, _, Some("date-time")) => "2030-01-01T00:00:00Z".into(),
        _ => "01a22cc3-31d6-7352-8c25-208ac218b05f".into(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
