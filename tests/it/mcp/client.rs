//! A client of the endpoint, in either era, and what it is told.

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::house::House;

/// Asks in one era, at one address, with the same keys.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    root: String,
    path: String,
    is_modern: bool,
    keys: Keys,
    toolsets: Option<String>,
    token: Option<Value>,
}

/// Keys in headers.
#[derive(Clone, Default)]
pub struct Keys {
    pub bearer: Option<String>,
    pub api: Option<String>,
}

impl Keys {
    pub fn bearer(key: &str) -> Keys {
        Keys { bearer: Some(key.into()), api: None }
    }

    pub fn api(key: &str) -> Keys {
        Keys { api: Some(key.into()), bearer: None }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

/// The id of every request.
const ID: &str = r#""an id""#;

impl Client {
    pub fn modern(house: &House) -> Client {
        Client {
            http: house.http().clone(),
            root: house.url(0),
            path: "/mcp".into(),
            is_modern: true,
            keys: Keys::default(),
            toolsets: None,
            token: None,
        }
    }

    pub fn legacy(house: &House) -> Client {
        Client { is_modern: false, ..Client::modern(house) }
    }

    pub fn at(&self, path: &str) -> Client {
        Client { path: path.into(), ..self.clone() }
    }

    pub fn with(&self, keys: Keys) -> Client {
        Client { keys, ..self.clone() }
    }

    pub fn narrowed(&self, toolsets: Option<&str>) -> Client {
        Client { toolsets: toolsets.map(str::to_owned), ..self.clone() }
    }

    /// Wants to hear of progress under this name.
    pub fn following(&self, token: Value) -> Client {
        Client { token: Some(token), ..self.clone() }
    }

    pub async fn ask(&self, method: &str, params: Value) -> Said {
        self.request(method, params, None).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Said {
        self.call_raw(tool, &arguments.to_string()).await
    }

    /// Calls a tool with arguments as bytes.
    pub async fn call_raw(&self, tool: &str, arguments: &str) -> Said {
        self.request("tools/call", json!({ "name": tool }), Some(arguments)).await
    }

    /// Posts a body, with the headers of the era and no more.
    pub async fn post(&self, body: impl Into<reqwest::Body>) -> Said {
        said(self.open(None).body(body)).await
    }

    async fn request(&self, method: &str, mut params: Value, arguments: Option<&str>) -> Said {
        let mut request = self.open(Some(method));
        if let Some(name) = params["name"].as_str().filter(|_| self.is_modern) {
            request = request.header("Mcp-Name", name);
        }
        if self.is_modern {
            params["_meta"] = modern_meta();
        }
        if let Some(token) = &self.token {
            params["_meta"]["progressToken"] = token.clone();
        }
        let mut params = params.to_string();
        if let Some(arguments) = arguments {
            params = format!(r#"{},"arguments":{arguments}}}"#, params.strip_suffix('}').unwrap());
        }
        let body = format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"{method}","params":{params}}}"#);
        said(request.body(body)).await
    }

    fn open(&self, method: Option<&str>) -> reqwest::RequestBuilder {
        let version = if self.is_modern { "2026-07-28" } else { "2025-11-25" };
        let mut request = self
            .http
            .post(format!("{}{}", self.root, self.path))
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", version);
        if let Some(method) = method.filter(|_| self.is_modern) {
            request = request.header("Mcp-Method", method);
        }
        if let Some(key) = &self.keys.bearer {
            request = request.bearer_auth(key);
        }
        if let Some(key) = &self.keys.api {
            request = request.header("X-API-Key", key);
        }
        match &self.toolsets {
            Some(toolsets) => request.header("X-MCP-Toolsets", toolsets),
            None => request,
        }
    }
}

/// `_meta` of a modern request.
pub fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Sends a request and reads all of its answer.
pub async fn said(request: reqwest::RequestBuilder) -> Said {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Said { status, headers, text: answer.text().await.unwrap() }
}

impl Said {
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{} {}", self.status, self.text))
    }

    /// The result of a request that went well.
    pub fn result(&self) -> Value {
        assert_eq!((self.status, &self.headers["content-type"]), (200, &"application/json".parse().unwrap()));
        let body = self.body();
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!("an id")), "{body}");
        assert!(body.get("error").is_none(), "{body}");
        body["result"].clone()
    }

    /// What a tool answered.
    pub fn structured(&self) -> Value {
        let result = self.result();
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// How a tool failed, which must be by this code.
    pub fn failure(&self, code: &str) -> Value {
        let result = self.result();
        assert_eq!(result["isError"], true, "{result}");
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["code"], code, "{result}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
        error.clone()
    }

    /// A JSON-RPC error with the request's id.
    pub fn error(&self, status: u16, code: i64) -> Value {
        let body = self.body();
        assert_eq!((self.status, &body["error"]["code"]), (status, &json!(code)), "{body}");
        assert_eq!(body["id"], "an id", "{body}");
        body["error"].clone()
    }

    /// A refusal of the HTTP layer with the request's id.
    pub fn refusal(&self, status: u16, word: &str) -> Value {
        let error = self.error(status, status.into());
        assert_eq!(error["data"]["code"], word);
        error
    }

    /// A refusal of the HTTP layer before the id could be read.
    pub fn refusal_without_id(&self, status: u16, word: &str) {
        let body = self.body();
        assert_eq!((self.status, &body["error"]["code"]), (status, &json!(status)), "{body}");
        assert_eq!((&body["error"]["data"]["code"], &body["id"]), (&json!(word), &Value::Null));
    }
}
