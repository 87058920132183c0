//! Validates a value against a published schema. What it does not know fails, so that nothing is let pass unread.

use serde_json::Value;

/// # Errors
/// The first fault, with the place it is at.
pub fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    at("$", schema, value)
}

fn at(place: &str, schema: &Value, value: &Value) -> Result<(), String> {
    let Value::Object(keywords) = schema else {
        return if *schema == Value::Bool(true) { Ok(()) } else { Err(format!("{place} is not allowed")) };
    };
    for (keyword, wanted) in keywords {
        let holds = match keyword.as_str() {
            "title" | "description" | "default" | "examples" | "$schema" => true,
            "type" => match wanted {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            },
            "enum" => wanted.as_array().is_some_and(|options| options.contains(value)),
            "const" => wanted == value,
            "anyOf" => fitting(place, wanted, value) > 0,
            "oneOf" => fitting(place, wanted, value) == 1,
            "format" => value.as_str().is_none_or(|text| has_format(wanted, text)),
            "required" => value.as_object().is_none_or(|object| {
                wanted
                    .as_array()
                    .into_iter()
                    .flatten()
                    .all(|name| object.contains_key(name.as_str().unwrap()))
            }),
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap()),
            "minLength" => {
                value.as_str().is_none_or(|text| text.chars().count() as u64 >= wanted.as_u64().unwrap())
            }
            "maxLength" => {
                value.as_str().is_none_or(|text| text.chars().count() as u64 <= wanted.as_u64().unwrap())
            }
            "pattern" => {
                let pattern = regex::Regex::new(wanted.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "properties" | "additionalProperties" | "items" => true,
            unknown => return Err(format!("{place}: this validator does not know {unknown}")),
        };
        if !holds {
            return Err(format!("{place} breaks {keyword} {wanted}"));
        }
    }
    members(place, schema, value)
}

fn members(place: &str, schema: &Value, value: &Value) -> Result<(), String> {
    if let (Some(items), Value::Array(values)) = (schema.get("items"), value) {
        for (index, value) in values.iter().enumerate() {
            at(&format!("{place}[{index}]"), items, value)?;
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema)) => at(&place, schema, value)?,
            (None, None) => {}
        }
    }
    Ok(())
}

fn fitting(place: &str, choices: &Value, value: &Value) -> usize {
    choices.as_array().unwrap().iter().filter(|choice| at(place, choice, value).is_ok()).count()
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => false,
    }
}

fn has_format(format: &Value, text: &str) -> bool {
    use time::format_description::well_known::Rfc3339;
    match format.as_str().unwrap() {
        "uuid" => uuid::Uuid::parse_str(text).is_ok(),
        "date-time" => time::OffsetDateTime::parse(text, &Rfc3339).is_ok(),
        _ => false,
    }
}
