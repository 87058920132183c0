//! `/docs/{toolset}`: every tool of it, with its arguments, answer, refusals and an example.

use maud::{Markup, html};
use serde_json::Value;

use super::fields::{Field, fields, shapes};
use super::{example, listing, paragraphs};
use crate::call::{Access, Entry, Method, Route, Toolset};

/// What stands on the page of a toolset.
pub(super) fn page(toolset: &Toolset, public_url: &str) -> Markup {
    html! {
        h1 { (toolset.name) }
        p { (toolset.about) }
        ul { @for entry in toolset.entries() {
            li { a href={ "#" (entry.spec.name) } { code { (entry.spec.name) } } ": " (entry.spec.title) }
        } }
        @for entry in toolset.entries() { (tool(entry, public_url)) }
    }
}

fn tool(entry: &Entry, public_url: &str) -> Markup {
    let name = entry.spec.name;
    let title = format!("{name}-title");
    html! {
        section #(name) aria-labelledby=(title) {
            h2 #(title) { code { (name) } ": " (entry.spec.title) }
            (paragraphs(&entry.description))
            (doors(entry))
            h3 { "Arguments" }
            @if entry.input["properties"].as_object().is_some_and(|fields| !fields.is_empty()) {
                (list(fields(&entry.input), true))
            } @else { p { "None." } }
            h3 { "Answer" }
            @for shape in shapes(&entry.answer) { (answer(shape)) }
            h3 { "Refusals" }
            p {
                @if !entry.refuses.is_empty() {
                    @for code in entry.refuses { a href={ "/docs#" (code) } { code { (code) } } " " }
                    "and "
                }
                a href="/docs#errors" { "those of every tool" } "."
            }
            h3 { "Example" }
            (listing(&format!("{name} over REST"), &example::curl(entry, public_url)))
            @if let Some(call) = example::mcp(entry) { (listing(&format!("{name} over MCP"), &call)) }
        }
    }
}

/// Who may call it, what it changes, and where.
fn doors(entry: &Entry) -> Markup {
    let hints = entry.spec.hints;
    let changes = match (hints.read_only, hints.destructive, hints.idempotent) {
        (true, ..) => "Changes nothing.",
        (_, true, _) => "Ends or removes something.",
        (_, _, true) => "Calling it again changes nothing more.",
        _ => "Adds something at each call.",
    };
    let caller = match entry.spec.access {
        Access::Anyone => "Needs no key.",
        Access::Agent => "Needs an agent's key (api_key).",
        Access::Owner => "Needs the owner's key (owner_key).",
    };
    html! {
        p { (caller) " " (changes) }
        ul {
            @for route in entry.spec.routes { li { code { (method(route)) " " (route.path) } (fixed(route)) } }
            @if entry.is_listed() {
                li { code { "POST /api/v1/tools/" (entry.spec.name) } }
                li { "MCP: " code { "tools/call" } " of " code { (entry.spec.name) } }
            }
        }
    }
}

fn method(route: &Route) -> &'static str {
    match route.method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
    }
}

fn fixed(route: &Route) -> Markup {
    html! { @for (name, value) in route.fixed { ", with " code { (name) } " " code { (value) } } }
}

fn answer(shape: &Value) -> Markup {
    html! {
        (paragraphs(shape["description"].as_str().unwrap_or_default()))
        (list(fields(shape), false))
    }
}

/// Of arguments it is told which are required, of answers which may be missing.
fn list(fields: Vec<Field>, of_arguments: bool) -> Markup {
    html! {
        dl { @for field in fields {
            dt {
                code { (field.path) } " " (field.kind)
                @match (of_arguments, field.is_required) {
                    (true, true) => { ", " strong { "required" } }
                    (false, false) => ", may be missing",
                    _ => {}
                }
                @if let Some(default) = field.default { ", default " code { (default) } }
            }
            dd { (field.about) }
        } }
    }
}
