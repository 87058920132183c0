//! A schema in words: each field with its type, limits and meaning.

use serde_json::Value;

/// One field of an object, or of an object within it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// `messages[].id` for what stands deeper.
    pub path: String,
    /// Its type and limits, such as `whole number, 1 to 100`.
    pub kind: String,
    pub is_required: bool,
    /// What it is when it is left out, as JSON.
    pub default: Option<String>,
    pub about: String,
}

/// The fields of an object's schema in their order, each followed by those within it.
pub(super) fn fields(schema: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    walk(schema, "", &mut fields);
    fields
}

/// The shapes an answer may have: one, or those of a union.
pub(super) fn shapes(schema: &Value) -> Vec<&Value> {
    match schema["anyOf"].as_array() {
        Some(shapes) => shapes.iter().collect(),
        None => vec![schema],
    }
}

fn walk(schema: &Value, prefix: &str, fields: &mut Vec<Field>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let inner = without_null(property).0;
        fields.push(Field {
            kind: kind(property),
            is_required: schema["required"]
                .as_array()
                .is_some_and(|names| names.iter().any(|one| one == name)),
            default: property.get("default").map(Value::to_string),
            about: property["description"].as_str().unwrap_or_default().to_owned(),
            path: path.clone(),
        });
        walk(inner, &format!("{path}."), fields);
        walk(&inner["items"], &format!("{path}[]."), fields);
    }
}

/// The schema behind `anyOf [schema, null]`, and whether null is allowed.
fn without_null(schema: &Value) -> (&Value, bool) {
    match schema["anyOf"].as_array().map(Vec::as_slice) {
        Some([inner, null]) if null["type"] == "null" => (inner, true),
        _ => (schema, false),
    }
}

fn kind(schema: &Value) -> String {
    let (schema, is_nullable) = without_null(schema);
    let name = match (schema["enum"].as_array(), schema["type"].as_str(), schema["format"].as_str()) {
        (Some(words), ..) => format!("one of {}", joined(words)),
        (_, Some("string"), Some("uuid")) => "UUID".into(),
        (_, Some("string"), Some("date-time")) => "RFC 3339 time".into(),
        (_, Some("string"), _) => "text".into(),
        (_, Some("integer"), _) => "whole number".into(),
        (_, Some("array"), _) => format!("list of {}", kind(&schema["items"])),
        (_, Some(other), _) => other.into(),
        (_, None, _) => "any JSON".into(),
    };
    let limits = [
        range(schema, "minLength", "maxLength", " characters"),
        range(schema, "minimum", "maximum", ""),
        range(schema, "minItems", "maxItems", " items"),
        schema["pattern"].as_str().map(|pattern| format!("matching {pattern}")),
        is_nullable.then(|| "or null".into()),
    ];
    std::iter::once(name).chain(limits.into_iter().flatten()).collect::<Vec<_>>().join(", ")
}

fn range(schema: &Value, least: &str, most: &str, of_what: &str) -> Option<String> {
    match (schema.get(least), schema.get(most)) {
        (None, None) => None,
        (Some(least), None) => Some(format!("at least {least}{of_what}")),
        (None, Some(most)) => Some(format!("at most {most}{of_what}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}{of_what}")),
    }
}

fn joined(words: &[Value]) -> String {
    let words = words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_tell_type_limits_and_what_stands_within() {
        let schema = json!({
            "required": ["limit"],
            "properties": {
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 5, "description": "Most." },
                "ids": { "type": "array", "minItems": 1, "items": { "type": "string", "format": "uuid" } },
                "reply": { "anyOf": [{ "type": "object", "properties": { "to": { "enum": ["a", "b"] } } }, { "type": "null" }] },
                "rows": { "type": "array", "items": { "type": "object", "properties": { "id": { "type": "string", "maxLength": 9 } } } },
            },
        });
        let told: Vec<_> =
            fields(&schema).into_iter().map(|field| format!("{}: {}", field.path, field.kind)).collect();
        assert_eq!(
            told,
            [
                "limit: whole number, 1 to 100",
                "ids: list of UUID, at least 1 items",
                "reply: object, or null",
                "reply.to: one of a, b",
                "rows: list of object",
                "rows[].id: text, at most 9 characters",
            ]
        );
        let first = &fields(&schema)[0];
        assert_eq!(
            (first.is_required, first.default.as_deref(), first.about.as_str()),
            (true, Some("5"), "Most.")
        );
    }
}
