//! What is published about the tools is what was agreed on. Further tools are ours to add.

use serde_json::{Map, Value, json};
use waypost::call::Entry;

/// Agreed on and not built yet. This list may only shrink.
const LATER: [&str; 0] = [];

#[test]
fn every_published_tool_is_here_as_it_was_agreed_on() {
    let registry = waypost::registry();
    let is_begun =
        |name: &Value| registry.toolsets().iter().any(|toolset| name.as_str() == Some(toolset.name));
    for (name, agreed) in contract() {
        let Some(entry) = registry.find(&name) else {
            let is_later = LATER.contains(&name.as_str()) || !is_begun(&agreed["toolset"]);
            assert!(is_later, "{name} is missing");
            continue;
        };
        assert!(entry.is_listed(), "{name} is not listed");
        assert!(!LATER.contains(&name.as_str()), "{name} is built: take it off the list");
        assert_eq!(without_descriptions(&entry.input), agreed["inputSchema"], "input of {name}");
        assert_eq!(annotations(entry), agreed["annotations"], "annotations of {name}");
        assert_eq!(entry.toolset, agreed["toolset"], "toolset of {name}");
    }
}

#[test]
fn every_tool_field_and_answer_is_described_for_agents() {
    for entry in waypost::registry().entries() {
        let name = entry.spec.name;
        assert!(!entry.description.is_empty(), "{name}");
        let properties = entry.input["properties"].as_object().unwrap();
        for (field, schema) in properties {
            assert!(schema["description"].is_string(), "{field} of {name}");
        }
        assert!(entry.answer["description"].is_string(), "the answer of {name}");
    }
}

fn contract() -> Map<String, Value> {
    let text = include_str!("../data/tools.json");
    serde_json::from_str(text).unwrap()
}

fn annotations(entry: &Entry) -> Value {
    let hints = entry.spec.hints;
    json!({
        "readOnlyHint": hints.read_only,
        "destructiveHint": hints.destructive,
        "idempotentHint": hints.idempotent,
        "openWorldHint": hints.open_world,
    })
}

/// Descriptions are for agents to read; a property that is called `description` stays.
fn without_descriptions(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let kept = object.iter().filter(|(name, _)| *name != "description");
            kept.map(|(name, inner)| match (name.as_str(), inner) {
                ("properties", Value::Object(properties)) => {
                    let inner =
                        properties.iter().map(|(name, schema)| (name.clone(), without_descriptions(schema)));
                    (name.clone(), Value::Object(inner.collect()))
                }
                _ => (name.clone(), without_descriptions(inner)),
            })
            .collect::<Map<_, _>>()
            .into()
        }
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}
