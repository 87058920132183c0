//! What a door answered, in one form for all of them.

use std::fmt;

use reqwest::RequestBuilder;
use serde_json::{Map, Value};
use waypost::call::Entry;

use super::doors::Way;

/// What came back, byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// Sorted; without those that differ from call to call.
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl fmt::Debug for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {:?}\n{}", self.status, self.headers, self.text)
    }
}

/// Sends it. The body of a stream without an end is not read.
pub async fn send(request: RequestBuilder) -> Reply {
    read(request.send().await.unwrap()).await
}

/// Reads an answer whole.
pub async fn read(answer: reqwest::Response) -> Reply {
    let varies = ["date", "x-request-id"];
    let mut headers: Vec<(String, String)> = answer
        .headers()
        .iter()
        .filter(|(name, _)| !varies.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.sort();
    let status = answer.status().as_u16();
    let is_stream =
        headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("text/event-stream"));
    let text = if is_stream { String::new() } else { answer.text().await.unwrap() };
    Reply { status, headers, text }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// A stream that was opened, which the walks do not follow.
    pub fn is_stream(&self) -> bool {
        self.status == 200
            && self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The answer, when the tool succeeded.
    pub fn answer(&self, way: Way) -> Option<Value> {
        if self.is_stream() {
            return Some(Value::Null);
        }
        match way.is_mcp() {
            true => {
                let body = self.json();
                let result = body.get("result").filter(|result| result["isError"] != true)?;
                Some(result["structuredContent"].clone())
            }
            false if self.status < 300 && self.text.is_empty() => Some(Value::Null),
            false => (self.status < 300).then(|| self.json()),
        }
    }

    /// The code of a refusal, however it is spelt.
    pub fn code(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.text).ok()?;
        let result = &body["result"];
        let failure = result["structuredContent"].as_object().filter(|_| result["isError"] == true);
        let envelope = failure.and_then(|failure| failure.values().find(|value| value.is_object()));
        let refused = envelope.or(body["error"].get("data")).unwrap_or(&body);
        refused["code"].as_str().map(str::to_owned)
    }

    /// The members of the refusal, in one form for all doors. Fails on anything that is no structured refusal.
    pub fn refusal(&self, way: Way, entry: &Entry) -> Map<String, Value> {
        assert!(self.status < 500, "{} by {way}: a fault of ours: {self:?}", entry.spec.name);
        let body = self.json();
        let members = match way.is_mcp() {
            true if body.get("error").is_some() => {
                assert!(body["error"]["code"].is_i64(), "{self:?}");
                let mut members = body["error"]["data"].as_object().cloned().unwrap_or_default();
                members.entry("code").or_insert("json_rpc".into());
                members.entry("retryable").or_insert(false.into());
                members.insert("message".into(), body["error"]["message"].clone());
                members
            }
            true => tool_error(&body, self),
            false => problem(body, self),
        };
        let is_text = |name: &str| members[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_text("code") && is_text("message") && members["retryable"].is_boolean(), "{self:?}");
        members
    }
}

fn tool_error(body: &Value, reply: &Reply) -> Map<String, Value> {
    let result = &body["result"];
    assert!(reply.status == 200 && result["isError"] == true, "no refusal: {reply:?}");
    let as_text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(as_text, result["structuredContent"], "text and structure differ");
    let failure = as_text.as_object().unwrap();
    // Every toolset's envelope holds one object that says what failed.
    failure.values().find_map(Value::as_object).cloned().unwrap_or_else(|| panic!("no envelope: {reply:?}"))
}

fn problem(body: Value, reply: &Reply) -> Map<String, Value> {
    assert!((400..500).contains(&reply.status), "no refusal: {reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:?}");
    let Value::Object(mut members) = body else { panic!("no problem: {reply:?}") };
    for name in ["type", "title", "status", "detail"] {
        assert!(members.shift_remove(name).is_some(), "a problem without {name}: {reply:?}");
    }
    members
}
