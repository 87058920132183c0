//! One value against one schema: what passes comes back normalized.

use std::collections::HashSet;

use serde_json::{Map, Value};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;

use super::{Fault, FieldPath, Format, Kind, Length, ListShape, Node, ObjectShape, Rest, TextShape, number};
use crate::nearest::nearest;

impl Node {
    pub(super) fn judge(&self, value: Value, at: FieldPath<'_>) -> Result<Value, Fault> {
        let value = match &self.kind {
            Kind::Any => value,
            Kind::Boolean if value.is_boolean() => value,
            Kind::Boolean => return Err(invalid(at, "must be true or false")),
            Kind::Whole(bounds) => number::whole(&value, *bounds).map_err(|problem| invalid(at, problem))?,
            Kind::Number(bounds) => {
                number::number(&value, *bounds).map_err(|problem| invalid(at, problem))?
            }
            Kind::Text(text) => Value::String(text.judge(value).map_err(|problem| invalid(at, problem))?),
            Kind::List(list) => Value::Array(list.judge(value, at)?),
            Kind::Object(object) => match value {
                Value::Object(members) => Value::Object(object.judge(members, at, &[])?),
                _ => return Err(invalid(at, "must be an object")),
            },
        };
        match &self.options {
            Some(options) if !options.contains(&value) => Err(invalid(at, one_of(options))),
            _ => Ok(value),
        }
    }
}

impl ObjectShape {
    pub(super) fn judge(
        &self,
        mut given: Map<String, Value>,
        at: FieldPath<'_>,
        other_words: &[(&str, &str)],
    ) -> Result<Map<String, Value>, Fault> {
        self.refuse_unknown(&given, at, other_words)?;
        if let Some(name) = self.required.iter().find(|name| given.get(*name).is_none_or(Value::is_null)) {
            return Err(invalid(at.member(name), "is required"));
        }
        let mut judged = Map::with_capacity(self.fields.len());
        for (name, node) in &self.fields {
            let member = given.shift_remove_entry(name).filter(|(_, value)| !value.is_null());
            let member = match member {
                Some((key, value)) => Some((key, node.judge(value, at.member(name))?)),
                None => node.default.clone().map(|default| (name.clone(), default)),
            };
            judged.extend(member);
        }
        match &self.rest {
            Rest::Refused => {}
            Rest::Free => judged.extend(given),
            Rest::Typed(node) => {
                for (name, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
                    let value = node.judge(value, at.member(&name))?;
                    judged.insert(name, value);
                }
            }
        }
        Ok(judged)
    }

    fn refuse_unknown(
        &self,
        given: &Map<String, Value>,
        at: FieldPath<'_>,
        other_words: &[(&str, &str)],
    ) -> Result<(), Fault> {
        if !matches!(self.rest, Rest::Refused) {
            return Ok(());
        }
        let Some(unknown) = given.keys().find(|name| !self.has(name)) else { return Ok(()) };
        let names = self.fields.iter().map(|(name, _)| (name.as_str(), name.as_str()));
        Err(Fault::Unknown {
            field: at.member(unknown).to_string(),
            suggestion: nearest(unknown, names.chain(other_words.iter().copied())).map(str::to_owned),
        })
    }
}

impl ListShape {
    fn judge(&self, value: Value, at: FieldPath<'_>) -> Result<Vec<Value>, Fault> {
        let Value::Array(given) = value else { return Err(invalid(at, "must be a list")) };
        if !self.length.fits(given.len()) {
            return Err(invalid(at, self.length.wanted("items")));
        }
        let Some(node) = &self.items else { return Ok(given) };
        let mut judged = Vec::with_capacity(given.len());
        for (index, item) in given.into_iter().enumerate() {
            judged.push(node.judge(item, at.item(index))?);
        }
        if self.unique && has_repeats(&judged) {
            return Err(invalid(at, "must not hold the same item twice"));
        }
        Ok(judged)
    }
}

impl TextShape {
    fn judge(&self, value: Value) -> Result<String, String> {
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) if self.pattern.is_some() => {
                number::decimal(&number).ok_or("must be sent as text: a number of this size is not exact")?
            }
            _ => return Err("must be text".to_owned()),
        };
        match self.format {
            Some(Format::Uuid) => return uuid(&text),
            Some(Format::DateTime) if !is_instant(&text) => {
                return Err(
                    "must be a time with its offset, such as 2030-01-31T12:00:00Z (RFC 3339)".to_owned()
                );
            }
            _ => {}
        }
        if !self.length.fits(text.chars().count()) {
            return Err(self.length.wanted("characters"));
        }
        match &self.pattern {
            Some(pattern) if !pattern.is_match(&text) => Err(format!("must match {pattern}")),
            _ => Ok(text),
        }
    }
}

/// RFC 3339, and still a time of its four-digit years when told in UTC, as it is stored and shown.
fn is_instant(text: &str) -> bool {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).ok();
    let in_utc = parsed.and_then(|instant| instant.checked_to_offset(UtcOffset::UTC));
    in_utc.is_some_and(|instant| (0..=9999).contains(&instant.year()))
}

impl Length {
    fn fits(self, count: usize) -> bool {
        let count = count as u64;
        self.min.is_none_or(|min| count >= min) && self.max.is_none_or(|max| count <= max)
    }

    fn wanted(self, what: &str) -> String {
        match (self.min, self.max) {
            (Some(1), None) => "must not be empty".to_owned(),
            (Some(min), None) => format!("must have at least {min} {what}"),
            (None | Some(0), Some(max)) => format!("must have at most {max} {what}"),
            (Some(min), Some(max)) => format!("must have {min} to {max} {what}"),
            (None, None) => String::new(),
        }
    }
}

/// The 36-character form alone: one id must not have several spellings in logs and links.
fn uuid(text: &str) -> Result<String, String> {
    if text.len() == 36 && Uuid::try_parse(text).is_ok() {
        return Ok(text.to_ascii_lowercase());
    }
    Err("must be a UUID such as 0192d3c4-5b6a-7c8d-9e0f-a1b2c3d4e5f6".to_owned())
}

/// Objects are compared whatever the order of their members.
fn has_repeats(items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    items.iter().any(|item| {
        let mut item = item.clone();
        item.sort_all_objects();
        !seen.insert(item.to_string())
    })
}

fn one_of(options: &[Value]) -> String {
    let options =
        options.iter().map(|option| option.as_str().map_or_else(|| option.to_string(), str::to_owned));
    format!("must be one of: {}", options.collect::<Vec<_>>().join(", "))
}

fn invalid(at: FieldPath<'_>, problem: impl Into<String>) -> Fault {
    Fault::Invalid { field: at.to_string(), problem: problem.into() }
}
