//! `/openapi.yaml`: the REST door as an OpenAPI 3.1 document, generated from the registry.
//!
//! Schemas are the tools' own (JSON Schema 2020-12, which OpenAPI 3.1 uses). The committed `openapi.yaml` is
//! what `waypost openapi` prints; a test keeps it so.

mod operation;
mod refusals;

use axum::Router;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::rest::BY_NAME;
use crate::call::{Entry, Organization, Registry, Route};
use operation::Operation;

/// What the first lines of the YAML say.
const HEADER: &str =
    "# The REST API of Waypost. Generated from the tools: `waypost openapi` prints it. Do not edit.\n";

const ABOUT: &str = "One inbox for agents: register, send, check, claim and ack. Every tool that is served over MCP is a \
route here too, with the same arguments, checks and answers. Bodies are UTF-8 JSON objects; unknown fields, repeated \
keys and NUL are refused with the field named. Whole numbers may be sent as numbers or as text, and null is the same as \
leaving a field out. Every refusal is application/problem+json with a stable code; retryable says whether the same may \
succeed later, and Retry-After, where it is sent, when. Every answer of a caller that is limited tells in \
RateLimit-Policy and RateLimit how it stands. Credentials come in headers, or in the body as box_key or owner_key where headers cannot be set; never in a \
URL. Everything is served at the root, which is the organization public, and below /o/{org}.";

/// Serves [`yaml`] at `/openapi.yaml` as `application/yaml` (RFC 9512).
pub fn router(registry: &Registry) -> Router {
    Router::new().route("/openapi.yaml", Document::new("application/yaml", yaml(registry)).route())
}

/// The document as YAML, ending in a newline.
#[expect(clippy::expect_used, reason = "a JSON value whose keys are all text is always YAML")]
pub fn yaml(registry: &Registry) -> String {
    let document = serde_norway::to_string(&document(registry)).expect("JSON is YAML");
    format!("{HEADER}{document}")
}

/// The document: every route of every tool, the tools by name, and the probes.
pub fn document(registry: &Registry) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Waypost",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The inbox for agents.",
            "description": ABOUT,
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "servers": servers(),
        "tags": tags(registry),
        "paths": paths(registry),
        "components": {
            "schemas": schemas(registry),
            "responses": refusals::responses(),
            "securitySchemes": security_schemes(),
        },
    })
}

fn servers() -> Value {
    json!([
        { "url": "/", "description": "The organization public, or that of the credential." },
        {
            "url": "/o/{org}",
            "description": "One organization.",
            "variables": { "org": { "default": Organization::DEFAULT, "description": "The organization's name." } },
        },
    ])
}

fn tags(registry: &Registry) -> Value {
    let toolsets = registry.toolsets().iter();
    let toolsets = toolsets.map(|toolset| json!({ "name": toolset.name, "description": toolset.about }));
    let probes = json!({ "name": "probes", "description": "For orchestrators. They need no credential." });
    toolsets.chain([probes]).collect()
}

/// Tools at their routes first, in reading order; methods of one path stand together.
fn paths(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for entry in registry.entries() {
        for (place, route) in entry.spec.routes.iter().enumerate() {
            add(&mut paths, route.path, &Operation { entry, route, id: id(entry, place, route) });
        }
    }
    for entry in registry.listed() {
        let path = BY_NAME.replace("{tool}", entry.spec.name);
        let id = format!("tool_{}", entry.spec.name);
        add(&mut paths, &path, &Operation { entry, route: &Route::post(BY_NAME), id });
    }
    for (path, item) in probes() {
        paths.insert(path.into(), item);
    }
    paths.into()
}

fn add(paths: &mut Map<String, Value>, path: &str, operation: &Operation<'_>) {
    let item = paths.entry(path).or_insert_with(|| json!({}));
    item[operation.method()] = operation.describe();
}

/// The tool's name; further routes add what they fix.
fn id(entry: &Entry, place: usize, route: &Route) -> String {
    let name = entry.spec.name;
    match (place, route.fixed.first()) {
        (0, _) => name.to_owned(),
        (_, Some((_, value))) => format!("{name}_{value}"),
        (_, None) => format!("{name}_{}", place + 1),
    }
}

fn probes() -> [(&'static str, Value); 2] {
    let text = |about: &str| json!({ "description": about, "content": { "text/plain": { "schema": { "type": "string" } } } });
    let probe = |id: &str, title: &str, about: &str, mut responses: Value, parameters: Value| {
        responses["400"] = refusals::reference(400);
        json!({
            "servers": [{ "url": "/", "description": "Not below an organization." }],
            "get": {
                "operationId": id, "tags": ["probes"], "summary": title, "description": about,
                "security": [], "parameters": parameters, "responses": responses,
            },
        })
    };
    let verbose = json!([{
        "name": "verbose", "in": "query", "description": "A line for each check.", "allowEmptyValue": true,
        "schema": { "type": "string" },
    }]);
    let alive = probe(
        "livez",
        "Is the process alive?",
        "Never touches the database: a restart would not mend that.",
        json!({ "200": text("It is.") }),
        json!([]),
    );
    let ready = probe(
        "readyz",
        "Is the pod ready for traffic?",
        "The schema is current, the database answers, and the pod is not draining.",
        json!({ "200": text("It is."), "503": text("It is not.") }),
        verbose,
    );
    [("/livez", alive), ("/readyz", ready)]
}

fn schemas(registry: &Registry) -> Value {
    let mut schemas = Map::new();
    for entry in registry.entries() {
        if entry.is_listed() {
            schemas.insert(operation::input_name(entry), operation::body(entry, &[]));
        }
        schemas.insert(operation::answer_name(entry), entry.answer.clone());
    }
    schemas.insert("Problem".into(), refusals::problem());
    schemas.into()
}

fn security_schemes() -> Value {
    json!({
        "agentKey": {
            "type": "http", "scheme": "bearer", "bearerFormat": "wpa_…",
            "description": "The api_key that register returned. Where headers cannot be set, send it in the body as box_key.",
        },
        "agentKeyHeader": {
            "type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same api_key in a header of its own.",
        },
        "streamTicket": {
            "type": "apiKey", "in": "query", "name": "ticket",
            "description": "A ticket of POST /api/v1/inbox/stream-ticket, for clients that cannot set headers, such as \
                EventSource. Opens streams for a minute and is good for nothing else.",
        },
        "ownerKey": {
            "type": "apiKey", "in": "header", "name": "X-Owner-Key",
            "description": "The owner_key that register returned. Where headers cannot be set, send it in the body as owner_key.",
        },
    })
}

#[cfg(test)]
mod tests;
