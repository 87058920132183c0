//! Published JSON Schemas: what schemars derives, made flat for picky hosts.
//!
//! Many hosts refuse `$ref`, null unions or number formats in tool schemas, so
//! optional means "may be left out", and everything stands inline.

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

use super::tool::Access;

/// The schema of an input, with the argument that may carry the credential.
pub fn of_input<T: JsonSchema>(access: Access, over_mcp: bool) -> Value {
    let mut schema = flat::<T>(Contract::Deserialize);
    if let Some(object) = schema.as_object_mut() {
        drop_nulls(object);
        object.entry("properties").or_insert_with(|| json!({}));
        object.insert("additionalProperties".into(), false.into());
        add_credential(object, access, over_mcp);
    }
    schema
}

/// The schema of an answer that succeeded: what is left out when it is empty is not required.
pub fn of_answer<T: JsonSchema>() -> Value {
    let mut schema = flat::<T>(Contract::Serialize);
    split_unions(&mut schema);
    schema
}

fn flat<T: JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = contract;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    strip(&mut schema);
    schema
}

/// Takes away what the derive adds and agents need not read: titles, number
/// formats and the bounds of Rust's integers.
fn strip(schema: &mut Value) {
    let Value::Object(object) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(strip);
        }
        return;
    };
    let is_number =
        object.get("type").is_some_and(|kind| names_type(kind, "integer") || names_type(kind, "number"));
    if is_number {
        object.remove("format");
    }
    if object.get("title").is_some_and(Value::is_string) {
        object.remove("title");
    }
    merge_words(object);
    for (name, inner) in object.iter_mut() {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(strip),
            ("default" | "enum" | "const" | "required" | "examples", _) => {}
            (_, inner) => strip(inner),
        }
    }
}

/// A choice of documented words, each a `const` of its own, becomes one `enum`.
fn merge_words(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("oneOf") else { return };
    let words: Option<Vec<Value>> = choices.iter().map(|choice| choice.get("const").cloned()).collect();
    if let Some(words) = words {
        object.shift_remove("oneOf");
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), words.into());
    }
}

fn names_type(kind: &Value, name: &str) -> bool {
    kind == name || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == name))
}

/// An optional property may be left out; it is never null.
fn drop_nulls(object: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.shift_remove("anyOf");
            only.into_iter().for_each(|(name, value)| _ = object.entry(name).or_insert(value));
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.shift_remove("default");
    }
    for (name, inner) in object.iter_mut() {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().filter_map(Value::as_object_mut).for_each(drop_nulls);
            }
            ("items", Value::Object(items)) => drop_nulls(items),
            _ => {}
        }
    }
}

fn add_credential(object: &mut Map<String, Value>, access: Access, over_mcp: bool) {
    let about = match access {
        Access::Agent => "Your api_key, if not in a header.",
        Access::Anyone => "An owner_key you already hold: the new agent then belongs to that owner.",
        Access::Owner => "The owner_key that register returned. Over REST send it as X-Owner-Key.",
    };
    let mut property = json!({ "type": "string", "maxLength": 128, "description": about });
    if access == Access::Agent {
        property["minLength"] = 1.into();
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.insert(access.argument().into(), property);
    }
    if access == Access::Owner && over_mcp {
        let required = object.entry("required").or_insert_with(|| json!([]));
        required.as_array_mut().into_iter().for_each(|names| names.push(access.argument().into()));
    }
}

/// `type: [x, "null"]` becomes an `anyOf`: some hosts know no lists of types.
fn split_unions(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(split_unions),
        Value::Object(object) => {
            if let Some(Value::Array(kinds)) = object.get("type").cloned()
                && let [kind, null] = kinds.as_slice()
                && null == "null"
            {
                let about = object.shift_remove("description");
                object.insert("type".into(), kind.clone());
                let mut union =
                    json!({ "anyOf": [Value::Object(std::mem::take(object)), { "type": "null" }] });
                if let (Some(about), Some(union)) = (about, union.as_object_mut()) {
                    union.insert("description".into(), about);
                }
                *schema = union;
                return;
            }
            object.values_mut().for_each(split_unions);
        }
        _ => {}
    }
}
