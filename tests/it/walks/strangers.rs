//! What another organization has does not exist: the same bytes as for ids that nothing has, and nothing of it
//! changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use waypost::call::Entry;

use super::agreement::structure;
use super::doors::{Way, ways};
use super::grounds::{Caller, Grounds, THEIR_BODY, THEIRS, uuid};
use super::reply::Reply;
use super::sample;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_organization_has_equals_what_does_not_exist() {
    let grounds = Grounds::open().await;
    let theirs = grounds.rows(THEIRS).await;
    let foreign = names_in(&theirs);
    assert!(foreign.len() >= 12, "the foreign organization is too empty: {foreign:?}");
    for entry in grounds.registry.entries() {
        walk(&grounds, entry, &foreign).await;
    }
    assert_eq!(grounds.rows(THEIRS).await, theirs, "something changed in the foreign organization");
}

/// Every naming field of a tool, by every way.
async fn walk(grounds: &Grounds, entry: &Arc<Entry>, foreign: &BTreeMap<String, String>) {
    let others = sample::accepted(grounds, entry).await;
    // An organization for each tool: a walk of one that gives names gives foreign ones too.
    let org = format!("ours-{}", entry.spec.name.replace('_', "-"));
    grounds.found(&org).await;
    // Beside what the tool needs, and with its required arguments alone: where two names exclude each other, one of
    // the two reaches the look-up.
    let variants: &[&[String]] = if others.is_empty() { &[&[]] } else { &[&others, &[]] };
    let mut fields = Vec::new();
    for way in ways(entry) {
        for (name, schema) in sample::naming(entry) {
            let is_list = schema["type"] == "array";
            fields.extend(variants.iter().map(|others| Field {
                org: &org,
                entry,
                way,
                name,
                is_list,
                others,
            }));
        }
    }
    let comparing = fields.iter().map(|field| field.compare(grounds, foreign));
    stream::iter(comparing).buffer_unordered(8).collect::<()>().await;
}

/// One field of a tool, by one way.
struct Field<'a> {
    org: &'a str,
    entry: &'a Arc<Entry>,
    way: Way,
    name: &'a str,
    is_list: bool,
    others: &'a [String],
}

impl Field<'_> {
    async fn compare(&self, grounds: &Grounds, foreign: &BTreeMap<String, String>) {
        let mut asking = Asking { grounds, field: self, caller: grounds.caller_in(self.org).await };
        let unknown_id = asking.ask(&uuid()).await;
        let unknown_name = asking.ask("nobody").await;
        for (what, value) in foreign {
            let unknown = if ::uuid::Uuid::parse_str(value).is_ok() { &unknown_id } else { &unknown_name };
            let reply = asking.ask(value).await;
            let context = format!(
                "{} by {}: {} = {what} of another organization",
                self.entry.spec.name, self.way, self.name
            );
            match (reply.answer(self.way), unknown.answer(self.way)) {
                (Some(answer), Some(unknown_answer)) => {
                    assert_eq!(structure(&answer), structure(&unknown_answer), "{context}");
                    assert_eq!(reply.status, unknown.status, "{context}");
                    assert!(!reply.text.contains(THEIR_BODY), "{context}");
                }
                _ => assert_eq!(reply, *unknown, "{context}"),
            }
        }
    }
}

/// Somebody of our organization who asks; once a call has changed something it is somebody new,
/// since the call may have used up what its caller had.
struct Asking<'a> {
    grounds: &'a Grounds,
    field: &'a Field<'a>,
    caller: Caller,
}

impl Asking<'_> {
    async fn ask(&mut self, value: &str) -> Reply {
        let Field { org, entry, way, name, is_list, others } = self.field;
        let mut arguments: Map<String, Value> = sample::arguments(entry, &self.caller, others);
        arguments.insert((*name).into(), if *is_list { json!([value]) } else { json!(value) });
        let reply = self.grounds.call(&self.caller, entry, *way, arguments).await;
        if reply.answer(*way).is_some() && !entry.spec.hints.read_only {
            self.caller = self.grounds.caller_in(org).await;
        }
        reply
    }
}

/// One value for each column of the organization's rows that holds ids or names.
fn names_in(rows: &[(String, Vec<String>)]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (table, rows) in rows {
        for row in rows {
            let row: Map<String, Value> = serde_json::from_str(row).unwrap();
            for (column, value) in row {
                let Value::String(value) = value else { continue };
                let is_name = matches!(column.as_str(), "name" | "key" | "slug");
                if ::uuid::Uuid::parse_str(&value).is_ok() || is_name {
                    names.insert(format!("{table}.{column}"), value);
                }
            }
        }
    }
    // Ids of one kind stand in many tables; each is asked for once.
    let mut seen = BTreeSet::new();
    names.retain(|_, value| seen.insert(value.clone()));
    names
}

#[tokio::test]
async fn a_list_shows_nothing_of_another_organization() {
    let grounds = Grounds::open().await;
    let foreign = names_in(&grounds.rows(THEIRS).await);
    for entry in grounds.registry.entries() {
        let others = sample::accepted(&grounds, entry).await;
        for way in ways(entry) {
            let caller = grounds.caller().await;
            let arguments = sample::arguments(entry, &caller, &others);
            let reply = grounds.call(&caller, entry, way, arguments).await;
            for (what, value) in &foreign {
                assert!(!reply.text.contains(value), "{} by {way} shows {what}", entry.spec.name);
            }
        }
    }
}
