//! All doors are one: the same answer, the same refusal, and both as the published output schema says.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use waypost::call::{Access, Entry, Method, Route};

use super::doors::{self, Sent, Way, ways};
use super::grounds::{Grounds, OURS, uuid};
use super::reply::{self, Reply};
use super::{json_schema, sample};

#[tokio::test]
async fn every_door_answers_with_the_published_structure() {
    let grounds = Grounds::open().await;
    let published = published(&grounds).await;
    for entry in grounds.registry.entries() {
        let others = sample::accepted(&grounds, entry).await;
        let ask = async |way: Way, fixed: Way| {
            let caller = grounds.caller().await;
            let arguments = sample::for_way(sample::arguments(entry, &caller, &others), fixed);
            let reply = grounds.call(&caller, entry, way, arguments).await;
            let answer =
                reply.answer(way).unwrap_or_else(|| panic!("{} by {way}: {reply:?}", entry.spec.name));
            check_success(entry, way, &reply, &answer, &published);
            answer
        };
        let ways = ways(entry);
        for way in &ways {
            let answer = ask(*way, *way).await;
            // By the first way, with what this one fixes: a stream and an empty answer have no structure to compare.
            let first = ask(ways[0], *way).await;
            if !answer.is_null() && !first.is_null() {
                assert_eq!(structure(&answer), structure(&first), "{} by {way}", entry.spec.name);
            }
        }
    }
}

fn check_success(entry: &Entry, way: Way, reply: &Reply, answer: &Value, published: &HashMap<String, Value>) {
    if answer.is_null() {
        return;
    }
    let context = format!("{} by {way}", entry.spec.name);
    json_schema::validate(&entry.answer, answer)
        .unwrap_or_else(|fault| panic!("{context}: {fault}: {answer}"));
    if way.is_mcp() {
        let schema = &published[entry.spec.name];
        json_schema::validate(schema, answer).unwrap_or_else(|fault| panic!("{context}: {fault}: {answer}"));
        let text = reply.json()["result"]["content"][0]["text"].as_str().map(str::to_owned).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            *answer,
            "{context}: text and structure differ"
        );
    }
}

#[tokio::test]
async fn every_door_refuses_with_the_same_words() {
    let grounds = Grounds::open().await;
    let published = published(&grounds).await;
    let caller = grounds.caller().await;
    for entry in grounds.registry.entries() {
        let mut asked = 0;
        for (what, key, arguments) in refused(&grounds, entry).await {
            let mut first: Option<(Way, Map<String, Value>)> = None;
            for way in ways(entry) {
                // What stands in a path cannot be left out there.
                if way.path_names().iter().any(|name| !arguments.contains_key(*name)) {
                    continue;
                }
                // Nor can an unknown field be sent where there is no place for one.
                let has_place = !matches!(way, Way::Route(Route { method: Method::Delete, .. }));
                if arguments.contains_key("no_such_field") && !has_place && ways(entry).len() > 1 {
                    continue;
                }
                let key = key.clone().unwrap_or_else(|| caller.sent(entry));
                let reply = grounds.call_with(&grounds.root(OURS), &key, entry, way, arguments.clone()).await;
                let context = format!("{} by {way}: {what}", entry.spec.name);
                assert!(reply.answer(way).is_none(), "{context}: {reply:?}");
                check_failure(entry, way, &reply, &published);
                let members = reply.refusal(way, entry);
                asked += 1;
                match &first {
                    None => first = Some((way, members)),
                    Some((other, first)) => assert_eq!(members, *first, "{context}, and by {other}"),
                }
            }
        }
        assert!(asked > 0, "{}: nothing that is refused was found", entry.spec.name);
    }
}

/// Calls that a tool must refuse: without a key, with a field it does not have, without one it needs, with names
/// of nothing.
async fn refused(grounds: &Grounds, entry: &Arc<Entry>) -> Vec<(String, Option<Sent>, Map<String, Value>)> {
    let caller = grounds.caller().await;
    let others = sample::accepted(grounds, entry).await;
    let good = sample::arguments(entry, &caller, &others);
    let with = |name: &str, value: Value| {
        let mut arguments = good.clone();
        arguments.insert(name.into(), value);
        arguments
    };
    let has_body = ways(entry).iter().any(|way| way.takes_json());
    let mut refused = Vec::new();
    if entry.spec.access != Access::Anyone {
        refused.push(("no key".to_owned(), Some(Sent::Nothing), good.clone()));
    }
    if has_body || ways(entry).len() == 1 {
        refused.push(("an unknown field".to_owned(), None, with("no_such_field", json!("x"))));
    }
    for name in entry.input["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if name != entry.spec.access.argument() && has_body {
            let mut arguments = good.clone();
            arguments.shift_remove(name);
            refused.push((format!("without {name}"), None, arguments));
        }
    }
    for (name, schema) in sample::naming(entry) {
        if schema["format"] == "uuid" || schema["items"]["format"] == "uuid" {
            let broken = if schema["type"] == "array" { json!(["x"]) } else { json!("x") };
            refused.push((format!("{name} that is no id"), None, with(name, broken)));
        }
    }
    refused
}

/// Every failure of a tool fits the schema that the tool publishes, for clients that validate failures too.
fn check_failure(entry: &Entry, way: Way, reply: &Reply, published: &HashMap<String, Value>) {
    let body = if way.is_mcp() { reply.json() } else { return };
    if let Some(failure) = body["result"].get("structuredContent") {
        json_schema::validate(&published[entry.spec.name], failure)
            .unwrap_or_else(|fault| panic!("{} by {way}: {fault}: {failure}", entry.spec.name));
    }
}

/// The output schemas as `tools/list` shows them, of every tool that is listed.
async fn published(grounds: &Grounds) -> HashMap<String, Value> {
    let reply = reply::send(doors::list(grounds.house.http(), &grounds.root(OURS))).await;
    let tools = reply.json()["result"]["tools"].as_array().cloned().unwrap_or_else(|| panic!("{reply:?}"));
    let schemas: HashMap<String, Value> = tools
        .into_iter()
        .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["outputSchema"].clone()))
        .collect();
    for entry in grounds.registry.listed() {
        let schema =
            schemas.get(entry.spec.name).unwrap_or_else(|| panic!("{} is not listed", entry.spec.name));
        assert_eq!(schema["type"], "object", "{}", entry.spec.name);
        // A schema that takes anything would prove nothing.
        assert!(json_schema::validate(schema, &json!({ "no": uuid() })).is_err(), "{}", entry.spec.name);
    }
    schemas
}

/// The names and types in a value; of a list those of its first item.
pub fn structure(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), structure(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().take(1).map(structure).collect(),
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
    }
}
