//! From a JSON Schema to a [`Shape`]; anything not understood is an error, never skipped.

use regex::Regex;
use serde_json::{Map, Value};

use super::{Bounds, FieldPath, Format, Kind, Length, ListShape, Node, ObjectShape, Rest, Shape, TextShape};

/// Keywords that describe and never judge.
const SILENT: [&str; 5] = ["$schema", "title", "description", "examples", "deprecated"];
/// Keywords that any schema may have.
const GENERAL: [&str; 4] = ["type", "enum", "const", "default"];

pub(super) fn shape(schema: &Value) -> Result<Shape, String> {
    match node(schema, FieldPath::Root)?.kind {
        Kind::Object(root) => Ok(Shape { root, other_words: Vec::new() }),
        _ => Err("the root must be of type object".to_owned()),
    }
}

fn node(schema: &Value, at: FieldPath<'_>) -> Result<Node, String> {
    let schema = schema.as_object().ok_or_else(|| format!("`{at}`: a schema must be an object"))?;
    let type_name = match schema.get("type") {
        None => None,
        Some(Value::String(name)) => Some(name.as_str()),
        Some(_) => return Err(format!("`{at}`: one type is needed")),
    };
    let (kind, keywords): (_, &[&str]) = match type_name {
        None => (Kind::Any, &[]),
        Some("boolean") => (Kind::Boolean, &[]),
        Some("integer") => (Kind::Whole(bounds(schema, at)?), &["minimum", "maximum", "exclusiveMinimum"]),
        Some("number") => (Kind::Number(bounds(schema, at)?), &["minimum", "maximum", "exclusiveMinimum"]),
        Some("string") => (Kind::Text(text(schema, at)?), &["minLength", "maxLength", "pattern", "format"]),
        Some("array") => {
            (Kind::List(Box::new(list(schema, at)?)), &["items", "minItems", "maxItems", "uniqueItems"])
        }
        Some("object") => {
            (Kind::Object(object(schema, at)?), &["properties", "required", "additionalProperties"])
        }
        Some(_) => return Err(format!("`{at}`: this type is not supported")),
    };
    let known =
        |word: &&String| [&SILENT[..], &GENERAL, keywords].iter().any(|words| words.contains(&word.as_str()));
    if let Some(word) = schema.keys().find(|word| !known(word)) {
        return Err(format!("`{at}`: keyword {word} is not supported here"));
    }
    with_default(Node { kind, options: options(schema, at)?, default: None }, schema.get("default"), at)
}

/// A default is kept as its own schema normalizes it, so that checking twice changes nothing.
fn with_default(mut node: Node, default: Option<&Value>, at: FieldPath<'_>) -> Result<Node, String> {
    if let Some(default) = default.filter(|value| !value.is_null()) {
        let judged = node.judge(default.clone(), at);
        node.default = Some(judged.map_err(|fault| format!("the default of {fault}"))?);
    }
    Ok(node)
}

fn options(schema: &Map<String, Value>, at: FieldPath<'_>) -> Result<Option<Vec<Value>>, String> {
    match (schema.get("enum"), schema.get("const")) {
        (None, None) => Ok(None),
        (None, Some(only)) => Ok(Some(vec![only.clone()])),
        (Some(Value::Array(options)), None) => Ok(Some(options.clone())),
        _ => Err(format!("`{at}`: enum must be a list, without const beside it")),
    }
}

fn bounds(schema: &Map<String, Value>, at: FieldPath<'_>) -> Result<Bounds, String> {
    let bound = |word: &str| match schema.get(word) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| format!("`{at}`: {word} must be a number")),
    };
    Ok(Bounds { min: bound("minimum")?, max: bound("maximum")?, above: bound("exclusiveMinimum")? })
}

fn length(schema: &Map<String, Value>, words: [&str; 2], at: FieldPath<'_>) -> Result<Length, String> {
    let count = |word: &str| match schema.get(word) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("`{at}`: {word} must be a count")),
    };
    Ok(Length { min: count(words[0])?, max: count(words[1])? })
}

fn text(schema: &Map<String, Value>, at: FieldPath<'_>) -> Result<TextShape, String> {
    let pattern = match schema.get("pattern") {
        None => None,
        Some(Value::String(pattern)) => {
            Some(Regex::new(pattern).map_err(|error| format!("`{at}`: pattern: {error}"))?)
        }
        Some(_) => return Err(format!("`{at}`: pattern must be text")),
    };
    let format = match schema.get("format").map(Value::as_str) {
        None => None,
        Some(Some("uuid")) => Some(Format::Uuid),
        Some(Some("date-time")) => Some(Format::DateTime),
        Some(_) => return Err(format!("`{at}`: this format is not supported")),
    };
    Ok(TextShape { length: length(schema, ["minLength", "maxLength"], at)?, pattern, format })
}

fn list(schema: &Map<String, Value>, at: FieldPath<'_>) -> Result<ListShape, String> {
    let items = schema.get("items").map(|items| node(items, at.item(0))).transpose()?;
    let unique = match schema.get("uniqueItems") {
        None => false,
        Some(Value::Bool(unique)) => *unique,
        Some(_) => return Err(format!("`{at}`: uniqueItems must be true or false")),
    };
    Ok(ListShape { items, length: length(schema, ["minItems", "maxItems"], at)?, unique })
}

fn object(schema: &Map<String, Value>, at: FieldPath<'_>) -> Result<ObjectShape, String> {
    let mut fields = Vec::new();
    match schema.get("properties") {
        None => {}
        Some(Value::Object(properties)) => {
            for (name, property) in properties {
                fields.push((name.clone(), node(property, at.member(name))?));
            }
        }
        Some(_) => return Err(format!("`{at}`: properties must be an object")),
    }
    let rest = match schema.get("additionalProperties") {
        None | Some(Value::Bool(true)) => Rest::Free,
        Some(Value::Bool(false)) => Rest::Refused,
        Some(typed) => Rest::Typed(Box::new(node(typed, at.member("*"))?)),
    };
    Ok(ObjectShape { fields, required: required(schema, at)?, rest })
}

fn required(schema: &Map<String, Value>, at: FieldPath<'_>) -> Result<Vec<String>, String> {
    let Some(required) = schema.get("required") else { return Ok(Vec::new()) };
    let names = required.as_array().and_then(|names| {
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    names.ok_or_else(|| format!("`{at}`: required must be a list of names"))
}
