//! One tool at one route, as an OpenAPI operation.

use serde_json::{Map, Value, json};

use super::refusals;
use crate::call::{Access, Entry, Method, Route};
use crate::doors::rest::BY_NAME;

/// A tool at one of its routes, or by its name.
pub(super) struct Operation<'a> {
    pub entry: &'a Entry,
    pub route: &'a Route,
    pub id: String,
}

impl Operation<'_> {
    /// The method, as a key of a path item.
    pub(super) fn method(&self) -> &'static str {
        match self.route.method {
            Method::Get => "get",
            Method::Post => "post",
            Method::Put => "put",
            Method::Delete => "delete",
        }
    }

    pub(super) fn describe(&self) -> Value {
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.entry.toolset],
            "summary": self.summary(),
            "description": self.description(),
            "security": self.security(),
        });
        let parameters = self.parameters();
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if self.has_body() {
            operation["requestBody"] = self.request_body();
        }
        operation["responses"] = self.responses();
        operation
    }

    fn description(&self) -> String {
        match self.route.is_stream {
            true => format!("{}\n\n{UNBOUNDED}", self.entry.description),
            false => self.entry.description.clone(),
        }
    }

    fn security(&self) -> Value {
        let mut security = security(self.entry.spec.access);
        if self.route.is_stream {
            security.as_array_mut().into_iter().for_each(|ways| ways.push(json!({ "streamTicket": [] })));
        }
        security
    }

    fn summary(&self) -> String {
        let title = self.entry.spec.title;
        let fixed = self.route.fixed.iter().map(|(name, value)| format!("{name} {value}"));
        match fixed.collect::<Vec<_>>() {
            _ if self.is_by_name() => format!("{title} (by its tool name)"),
            none if none.is_empty() => title.to_owned(),
            fixed => format!("{title} ({})", fixed.join(", ")),
        }
    }

    fn is_by_name(&self) -> bool {
        self.route.path == BY_NAME
    }

    fn has_body(&self) -> bool {
        matches!(self.route.method, Method::Post | Method::Put) && !self.body_fields().is_empty()
    }

    /// Fields that the address says, in its path or by what the route fixes.
    fn addressed(&self) -> Vec<&str> {
        let path = places(self.route.path).filter(|_| !self.is_by_name());
        path.chain(self.route.fixed.iter().map(|(name, _)| *name)).collect()
    }

    fn parameters(&self) -> Vec<Value> {
        let in_path = places(self.route.path).filter(|_| !self.is_by_name());
        let in_path = in_path.map(|name| self.parameter(name, "path", true));
        let required = names(&self.entry.input["required"]);
        let in_query = properties(&self.entry.input).into_iter().filter(|(name, _)| {
            self.route.method == Method::Get
                && !self.addressed().contains(&name.as_str())
                && name != self.entry.spec.access.argument()
        });
        let in_query = in_query.map(|(name, _)| self.parameter(&name, "query", required.contains(&name)));
        let of_streams = stream_parameters().into_iter().filter(|_| self.route.is_stream);
        in_path.chain(in_query).chain(of_streams).collect()
    }

    fn parameter(&self, name: &str, place: &str, is_required: bool) -> Value {
        let mut schema = self.entry.input["properties"][name].clone();
        if self.route.is_stream {
            schema.as_object_mut().into_iter().for_each(|schema| _ = schema.shift_remove("default"));
        }
        let about = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
        let about = about.unwrap_or_default();
        json!({ "name": name, "in": place, "required": is_required, "description": about, "schema": schema })
    }

    fn body_fields(&self) -> Map<String, Value> {
        let mut fields = properties(&self.entry.input);
        self.addressed().into_iter().for_each(|name| _ = fields.shift_remove(name));
        fields
    }

    /// The tool's whole input is a component; a route that takes a part of it has that part inline.
    fn request_body(&self) -> Value {
        let schema = match self.is_by_name() || (self.addressed().is_empty() && self.entry.is_listed()) {
            true => json!({ "$ref": format!("#/components/schemas/{}", input_name(self.entry)) }),
            false => body(self.entry, &self.addressed()),
        };
        let required = names(&body(self.entry, &self.addressed())["required"]);
        json!({ "required": !required.is_empty(), "content": { "application/json": { "schema": schema } } })
    }

    fn responses(&self) -> Value {
        let mut responses = Map::new();
        let mut succeeds = |status: u16, about: &str| {
            let schema = json!({ "$ref": format!("#/components/schemas/{}", answer_name(self.entry)) });
            let answer =
                json!({ "description": about, "content": { "application/json": { "schema": schema } } });
            responses.insert(status.to_string(), answer);
        };
        match self.route.success {
            _ if self.route.is_stream => {
                // One event: the specification of OpenAPI leaves open what the schema of a stream describes.
                let event = json!({ "type": "object", "properties": {
                    "event": { "type": "string", "enum": ["message", "ping", "reconnect", "revoked"] },
                    "id": { "type": "string", "pattern": "^[0-9]+$" },
                    "data": { "type": "string" },
                } });
                let content = json!({ "text/event-stream": { "schema": event } });
                responses.insert("200".into(), json!({ "description": STREAM, "content": content }));
            }
            201 => {
                succeeds(200, "The answer of an earlier call with the same key, again.");
                succeeds(201, "Done.");
            }
            204 => _ = responses.insert("204".to_owned(), json!({ "description": "Done." })),
            other => succeeds(other, "Done."),
        }
        for status in self.refusals() {
            responses.insert(status.to_string(), refusals::reference(status));
        }
        responses.into()
    }

    fn refusals(&self) -> impl Iterator<Item = u16> {
        let writes = !self.entry.spec.hints.read_only;
        let has_body = matches!(self.route.method, Method::Post | Method::Put);
        let may = move |status: &u16| match status {
            409 => writes,
            413 | 415 => has_body,
            _ => true,
        };
        refusals::STATUSES.into_iter().filter(may)
    }
}

/// What a stream says.
const STREAM: &str = "Server-sent events. message: id is the seq, data the envelope as JSON. ping: data holds the \
cursor. reconnect: the last one, data holds the cursor; connect again with it. revoked: the last one, the key stands no \
more.";

/// How a stream over REST differs from the tool.
const UNBOUNDED: &str = "Here it is a stream of server-sent events. Without wait it stays open until the server is \
replaced.";

/// What streams take beside the tool's arguments.
fn stream_parameters() -> [Value; 1] {
    [json!({
        "name": "Last-Event-ID", "in": "header", "required": false,
        "description": "The id of the last event a client got that reconnects. Wins over since.",
        "schema": { "type": "integer", "minimum": 0 },
    })]
}

/// `MailboxSendInput` for `mailbox_send`.
pub(super) fn input_name(entry: &Entry) -> String {
    format!("{}Input", camel(entry.spec.name))
}

/// `MailboxSendAnswer` for `mailbox_send`.
pub(super) fn answer_name(entry: &Entry) -> String {
    format!("{}Answer", camel(entry.spec.name))
}

/// The schema of a body: the input without the fields that the address says. A credential may come by header,
/// so it is never required here.
pub(super) fn body(entry: &Entry, addressed: &[&str]) -> Value {
    let mut schema = entry.input.clone();
    let is_elsewhere = |name: &str| addressed.contains(&name);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| !is_elsewhere(name));
    }
    let mut required = names(&schema["required"]);
    required.retain(|name| !is_elsewhere(name) && name != entry.spec.access.argument());
    if let Some(object) = schema.as_object_mut() {
        object.shift_remove("required");
        if !required.is_empty() {
            object.insert("required".into(), required.into());
        }
    }
    schema
}

fn security(access: Access) -> Value {
    match access {
        Access::Anyone => json!([{}, { "ownerKey": [] }]),
        Access::Agent => json!([{ "agentKey": [] }, { "agentKeyHeader": [] }]),
        Access::Owner => json!([{ "ownerKey": [] }]),
    }
}

/// The names in braces.
fn places(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn properties(input: &Value) -> Map<String, Value> {
    input["properties"].as_object().cloned().unwrap_or_default()
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn camel(name: &str) -> String {
    let upper = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(upper).collect()
}
