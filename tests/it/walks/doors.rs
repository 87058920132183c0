//! One call, by every way a tool is reached: MCP, its name over REST, its own routes.

use std::fmt;
use std::sync::Arc;

use reqwest::RequestBuilder;
use serde_json::{Map, Value, json};
use waypost::call::{Access, Entry, Method, Route};

/// A way to reach a tool.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// `tools/call`, modern era.
    Mcp,
    /// `tools/call`, legacy era.
    McpLegacy,
    /// `POST /api/v1/tools/{name}`.
    ByName,
    /// One of its own routes.
    Route(Route),
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Route(route) => write!(out, "{:?} {}", route.method, route.path),
            other => write!(out, "{other:?}"),
        }
    }
}

/// All ways to a tool.
pub fn ways(entry: &Entry) -> Vec<Way> {
    let everywhere = [Way::Mcp, Way::McpLegacy, Way::ByName];
    let listed = everywhere.into_iter().filter(|_| entry.is_listed());
    listed.chain(entry.spec.routes.iter().copied().map(Way::Route)).collect()
}

impl Way {
    /// Whether arguments travel as JSON, so that every shape of them can be sent.
    pub fn takes_json(self) -> bool {
        !matches!(self, Way::Route(Route { method: Method::Get | Method::Delete, .. }))
    }

    pub fn is_mcp(self) -> bool {
        matches!(self, Way::Mcp | Way::McpLegacy)
    }

    /// The names that stand in the path.
    pub fn path_names(self) -> Vec<&'static str> {
        let Way::Route(route) = self else { return Vec::new() };
        route.path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
    }

    /// The names that the address speaks for: those in the path and those the route fixes.
    pub fn address_names(self) -> Vec<&'static str> {
        let Way::Route(route) = self else { return Vec::new() };
        self.path_names().into_iter().chain(route.fixed.iter().map(|(name, _)| *name)).collect()
    }
}

/// A key and how it is sent.
#[derive(Debug, Clone)]
pub enum Sent {
    Nothing,
    /// In the header of its kind.
    Header(Access, String),
    /// As the argument of its kind.
    Argument(Access, String),
}

/// Builds one call. `root` is the pod's URL, with `/o/{org}` where one is named.
pub fn request(
    http: &reqwest::Client,
    root: &str,
    entry: &Arc<Entry>,
    way: Way,
    key: &Sent,
    mut arguments: Map<String, Value>,
) -> RequestBuilder {
    if let Sent::Argument(access, key) = key {
        arguments.insert(access.argument().into(), key.clone().into());
    }
    let request = match way {
        Way::Mcp | Way::McpLegacy => {
            mcp(http, root, entry.spec.name, way, &Value::Object(arguments).to_string())
        }
        Way::ByName => {
            http.post(format!("{root}/api/v1/tools/{}", entry.spec.name)).json(&Value::Object(arguments))
        }
        Way::Route(route) => at_route(http, root, route, arguments),
    };
    with_header(request, key)
}

/// The same with arguments as bytes; only where they travel as JSON.
pub fn raw_request(
    http: &reqwest::Client,
    root: &str,
    entry: &Arc<Entry>,
    way: Way,
    key: &Sent,
    path_arguments: &Map<String, Value>,
    body: &[u8],
) -> RequestBuilder {
    let request = match way {
        Way::Mcp | Way::McpLegacy => {
            let marked = mcp_body(entry.spec.name, way, "\u{1}");
            let (before, after) = marked.split_once('\u{1}').unwrap();
            let body = [before.as_bytes(), body, after.as_bytes()].concat();
            mcp_headers(http.post(format!("{root}/mcp")), entry.spec.name, way).body(body)
        }
        Way::ByName => http
            .post(format!("{root}/api/v1/tools/{}", entry.spec.name))
            .header("content-type", "application/json")
            .body(body.to_vec()),
        Way::Route(route) => {
            let (path, _) = fill(route, path_arguments.clone());
            http.request(method(route.method), format!("{root}{path}"))
                .header("content-type", "application/json")
                .body(body.to_vec())
        }
    };
    with_header(request, key)
}

fn with_header(request: RequestBuilder, key: &Sent) -> RequestBuilder {
    match key {
        Sent::Header(Access::Agent, key) => request.bearer_auth(key),
        Sent::Header(_, key) => request.header("x-owner-key", key),
        Sent::Nothing | Sent::Argument(..) => request,
    }
}

const MODERN: &str = "2026-07-28";

fn mcp(http: &reqwest::Client, root: &str, tool: &str, way: Way, arguments: &str) -> RequestBuilder {
    mcp_headers(http.post(format!("{root}/mcp")), tool, way).body(mcp_body(tool, way, arguments))
}

fn mcp_headers(request: RequestBuilder, tool: &str, way: Way) -> RequestBuilder {
    let request = request
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    match way {
        Way::McpLegacy => request.header("mcp-protocol-version", "2025-11-25"),
        _ => request
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool),
    }
}

fn mcp_body(tool: &str, way: Way, arguments: &str) -> String {
    let meta = match way {
        Way::McpLegacy => json!({}),
        _ => json!({ "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {} }),
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}}}"#
    )
}

fn at_route(
    http: &reqwest::Client,
    root: &str,
    route: Route,
    arguments: Map<String, Value>,
) -> RequestBuilder {
    let (path, rest) = fill(route, arguments);
    let url = format!("{root}{path}");
    match route.method {
        Method::Get => {
            let pairs = rest.iter().map(|(name, value)| format!("{name}={}", escape(&plain(value))));
            http.get(with_query(&url, &pairs.collect::<Vec<_>>().join("&")))
        }
        Method::Delete => http.delete(url),
        Method::Post => http.post(url).json(&Value::Object(rest)),
        Method::Put => http.put(url).json(&Value::Object(rest)),
    }
}

/// The URL with more in its query.
pub fn with_query(url: &str, query: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    if query.is_empty() { url.to_owned() } else { format!("{url}{joint}{query}") }
}

/// The path with its places filled, and the arguments that stand elsewhere. What the route fixes is left out.
fn fill(route: Route, mut arguments: Map<String, Value>) -> (String, Map<String, Value>) {
    let mut path = String::new();
    for (place, piece) in route.path.split(['{', '}']).enumerate() {
        match place % 2 {
            0 => path.push_str(piece),
            _ => path.push_str(&escape(&arguments.shift_remove(piece).as_ref().map_or("none".into(), plain))),
        }
    }
    route.fixed.iter().for_each(|(name, _)| _ = arguments.shift_remove(*name));
    (path, arguments)
}

/// As text in a path or a query.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Percent-encodes everything but letters, digits and dashes.
fn escape(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    }
}

/// `tools/list`, modern era, with all toolsets.
pub fn list(http: &reqwest::Client, root: &str) -> RequestBuilder {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {} });
    http.post(format!("{root}/mcp"))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", "tools/list")
        .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } }))
}
