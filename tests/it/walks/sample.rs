//! Arguments made from a tool's published input schema and from what the caller owns.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use waypost::call::Entry;

use super::doors::{Way, ways};
use super::grounds::{Caller, Grounds, uuid};

/// The properties of a tool's input, without the credential.
pub fn properties(entry: &Entry) -> Vec<(&str, &Value)> {
    let properties = entry.input["properties"].as_object().unwrap();
    let shown = properties.iter().filter(|(name, _)| *name != entry.spec.access.argument());
    shown.map(|(name, schema)| (name.as_str(), schema)).collect()
}

/// The properties that name something: what a caller could put another's id or name into.
pub fn naming(entry: &Entry) -> Vec<(&str, &Value)> {
    properties(entry).into_iter().filter(|(name, schema)| is_name(name, schema)).collect()
}

/// Whether a property names something.
pub fn is_name(name: &str, schema: &Value) -> bool {
    let item = if schema["type"] == "array" { &schema["items"] } else { schema };
    let is_called_so = ["_id", "_ids", "_name"].iter().any(|end| name.ends_with(end)) || name == "cursor";
    item["format"] == "uuid" || (item["type"] == "string" && item.get("enum").is_none() && is_called_so)
}

/// Arguments that the tool takes, for this caller: the required ones, and as many others as it insists on.
///
/// Each guess is tried on a caller of its own; a tool that takes none fails the test.
pub async fn accepted(grounds: &Grounds, entry: &Arc<Entry>) -> Vec<String> {
    let optional: Vec<&str> =
        properties(entry).iter().map(|(name, _)| *name).filter(|name| !is_required(entry, name)).collect();
    let alone = optional.iter().map(|name| vec![*name]);
    let pairs = optional
        .iter()
        .enumerate()
        .flat_map(|(place, first)| optional[place + 1..].iter().map(move |second| vec![*first, *second]));
    let way = ways(entry)[0];
    for names in std::iter::once(Vec::new()).chain(alone).chain(pairs) {
        let caller = grounds.caller().await;
        let arguments = arguments(entry, &caller, &names);
        if grounds.call(&caller, entry, way, arguments).await.answer(way).is_some() {
            return names.into_iter().map(str::to_owned).collect();
        }
    }
    panic!("{}: no sample is taken; say in walks/sample.rs what its fields name", entry.spec.name)
}

/// The required arguments and these others, filled with what the caller owns.
pub fn arguments(entry: &Entry, caller: &Caller, others: &[impl AsRef<str>]) -> Map<String, Value> {
    let wanted = |name: &str| {
        let is_addressed = entry.spec.routes.iter().any(|route| route.path.contains(&format!("{{{name}}}")));
        is_required(entry, name)
            || is_addressed
            || name == "wait"
            || others.iter().any(|other| other.as_ref() == name)
    };
    let chosen = properties(entry).into_iter().filter(|(name, _)| wanted(name));
    chosen.map(|(name, schema)| (name.to_owned(), own(entry, caller, name, schema))).collect()
}

/// The same with what a route fixes.
pub fn for_way(mut arguments: Map<String, Value>, way: Way) -> Map<String, Value> {
    if let Way::Route(route) = way {
        arguments.extend(route.fixed.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    }
    arguments
}

fn is_required(entry: &Entry, name: &str) -> bool {
    entry.input["required"].as_array().is_some_and(|required| required.iter().any(|other| other == name))
}

/// What the caller would put into this field.
fn own(entry: &Entry, caller: &Caller, name: &str, schema: &Value) -> Value {
    let id = match name {
        // The door must not hold a walk.
        "wait" => return schema.get("minimum").cloned().unwrap_or(json!(0)),
        "agent_id" => &caller.agent_id,
        "url" => return json!("https://example.com/"),
        "recipient_agent_name" => &caller.peer_name,
        "message_id" | "in_reply_to" => &caller.message_id,
        "message_ids" => return json!([caller.message_id]),
        "key_id" => &caller.key_id,
        "thread_id" | "run_id" | "client_message_id" | "ack_id" => &uuid(),
        _ if name.ends_with("_agent_id") => &caller.peer_id,
        _ if schema["format"] == "uuid" || schema["items"]["format"] == "uuid" => {
            panic!("{}: say in walks/sample.rs what {name} names", entry.spec.name)
        }
        _ => return plain(schema).unwrap_or_else(|| panic!("{}: no sample for {name}", entry.spec.name)),
    };
    json!(id)
}

/// A value that a schema takes, whatever it means.
fn plain(schema: &Value) -> Option<Value> {
    if let Some(first) = schema["enum"].get(0) {
        return Some(first.clone());
    }
    Some(match schema["type"].as_str()? {
        "boolean" => json!(true),
        "integer" | "number" => schema.get("minimum").or(schema.get("default")).cloned().unwrap_or(json!(1)),
        "string" => json!(text(schema)?),
        "array" => json!([plain(&schema["items"])?]),
        "object" => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let members = required.iter().filter_map(Value::as_str);
            Value::Object(
                members
                    .map(|name| Some((name.to_owned(), plain(&schema["properties"][name])?)))
                    .collect::<Option<_>>()?,
            )
        }
        _ => return None,
    })
}

fn text(schema: &Value) -> Option<String> {
    let guesses = [
        "sample",
        "1",
        "2030-01-31T12:00:00Z",
        "0192d3c4-5b6a-7c8d-9e0f-a1b2c3d4e5f6",
        "https://example.com/",
    ];
    let fits = |guess: &str| {
        let length = guess.chars().count() as u64;
        let long_enough = schema["minLength"].as_u64().is_none_or(|least| length >= least);
        let short_enough = schema["maxLength"].as_u64().is_none_or(|most| length <= most);
        let of_format = match schema["format"].as_str() {
            Some("uuid") => guess == guesses[3],
            Some("date-time") => guess == guesses[2],
            Some("uri") => guess == guesses[4],
            _ => true,
        };
        let matches =
            schema["pattern"].as_str().is_none_or(|it| regex::Regex::new(it).unwrap().is_match(guess));
        long_enough && short_enough && of_format && matches
    };
    guesses.into_iter().find(|guess| fits(guess)).map(str::to_owned)
}
