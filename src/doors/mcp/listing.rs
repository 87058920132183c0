//! What `tools/list` says: written once for each selection of toolsets, then only copied.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Value, json};

use super::selection::Selection;
use crate::call::{Entry, Registry};

/// The lists of tools, as JSON text.
pub struct Listing(Vec<OnceLock<Bytes>>);

impl Listing {
    /// Nothing written yet.
    pub fn new(registry: &Registry) -> Listing {
        Listing((0..Selection::count(registry)).map(|_| OnceLock::new()).collect())
    }

    /// The JSON array of the selected tools, in reading order. The same in both eras.
    pub fn tools(&self, selection: Selection, registry: &Registry) -> Bytes {
        let write = || written(selection, registry);
        self.0.get(selection.index()).map_or_else(write, |slot| slot.get_or_init(write).clone())
    }
}

fn written(selection: Selection, registry: &Registry) -> Bytes {
    let entries = registry.listed().filter(|entry| selection.holds(entry, registry));
    Value::Array(entries.map(|entry| tool(entry)).collect()).to_string().into()
}

fn tool(entry: &Entry) -> Value {
    let (spec, hints) = (entry.spec, entry.spec.hints);
    json!({
        "name": spec.name,
        "title": spec.title,
        "description": entry.description,
        "inputSchema": entry.input,
        // Some clients judge failures by this schema too, so it must let them pass.
        "outputSchema": { "type": "object", "anyOf": [terse(&entry.answer), entry.dialect.failure_schema()] },
        "annotations": {
            "title": spec.title,
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    })
}

/// A schema without its descriptions and formats and with one of what is required, and below its own members without bounds, choices
/// and the types of what may be null: a model reads answers as they come, and every word listed here is paid for in each
/// conversation. `openapi.yaml` has them.
fn terse(schema: &Value) -> Value {
    let Value::Object(members) = schema else { return without(schema, NEVER_LISTED) };
    let kept = members.iter().filter(|(name, _)| !NEVER_LISTED.contains(&name.as_str()));
    let members = kept.map(|(name, value)| match (name.as_str(), value) {
        ("properties", value) => (name.clone(), without(value, NOT_LISTED_BELOW)),
        // One is enough to tell an answer from a failure.
        ("required", Value::Array(names)) => (name.clone(), names.iter().take(1).cloned().collect()),
        (_, Value::Array(forms)) => (name.clone(), forms.iter().map(terse).collect()),
        (_, value) => (name.clone(), value.clone()),
    });
    Value::Object(members.collect())
}

const NEVER_LISTED: &[&str] = &["description", "format"];
const NOT_LISTED_BELOW: &[&str] =
    &["description", "format", "required", "minimum", "enum", "additionalProperties"];

/// Without those keywords; a property that is called as one of them stays.
fn without(schema: &Value, keywords: &[&str]) -> Value {
    match schema {
        Value::Object(members) if members.len() == 1 && members.contains_key("anyOf") => json!({}),
        Value::Object(members) => {
            let is_kept =
                |(name, value): &(&String, &Value)| value.is_object() || !keywords.contains(&name.as_str());
            let kept = members.iter().filter(is_kept);
            Value::Object(kept.map(|(name, value)| (name.clone(), without(value, keywords))).collect())
        }
        Value::Array(items) => items.iter().map(|item| without(item, keywords)).collect(),
        scalar => scalar.clone(),
    }
}
