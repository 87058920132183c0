//! All that was heard of a pod, and the secrets it has shown.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::forms;
use crate::house::Agent;
use crate::program::Program;

/// Fields of an answer that show a secret on purpose.
const SHOWN: [&str; 4] = ["api_key", "owner_key", "wallet_private_key", "ticket"];

/// What the secret of a webhook is called among the secrets. It is never shown, and kept sealed.
pub const HOOK_SECRET: &str = "secret of a webhook";

/// A pod, the secrets it has shown, and all else that was heard of it.
pub struct Watch {
    pub pod: Option<Program>,
    pub url: String,
    pub http: reqwest::Client,
    pub secrets: Vec<(&'static str, String)>,
    heard: Vec<(String, String)>,
}

impl Watch {
    pub fn over(pod: Program) -> Watch {
        let url = pod.url.clone();
        Watch { pod: Some(pod), url, http: reqwest::Client::new(), secrets: Vec::new(), heard: Vec::new() }
    }

    pub fn hear(&mut self, place: &str, text: &str) {
        self.heard.push((place.to_owned(), text.to_lowercase()));
    }

    pub fn pod(&self) -> &Program {
        self.pod.as_ref().unwrap()
    }

    /// Sends a request whose answer must show no secret, and gives it.
    pub async fn ask(&mut self, what: &str, request: RequestBuilder) -> (u16, Value) {
        let Ok(answer) = timeout(Duration::from_secs(60), request.send()).await.expect(what) else {
            // Refused before there was an answer.
            return (0, Value::Null);
        };
        let (status, headers) = (answer.status().as_u16(), format!("{:?}", answer.headers()));
        let text = answer.text().await.unwrap_or_default();
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let mut rest = body.clone();
        if let Some(members) = rest.as_object_mut().filter(|members| members.contains_key("jsonrpc")) {
            // JSON-RPC gives a request's id back to whoever sent it.
            members.remove("id");
        }
        self.hear(&format!("the answer to {what}"), &format!("{status} {headers} {rest}"));
        (status, body)
    }

    /// Sends a request whose answer shows secrets: they are noted, and the rest of it is heard.
    pub async fn show(&mut self, what: &str, request: RequestBuilder) -> Value {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status(), format!("{:?}", answer.headers()));
        let said: Value = answer.json().await.unwrap();
        assert!(status.is_success(), "{what}: {said}");
        // Over MCP the same stands there twice.
        let shown = match said.pointer("/result/structuredContent") {
            Some(structured) => structured.clone(),
            None => said,
        };
        let mut rest = shown.clone();
        for name in SHOWN {
            if let Some(Value::String(secret)) = rest.as_object_mut().unwrap().remove(name) {
                self.secrets.push((name, secret));
            }
        }
        self.hear(what, &format!("{headers} {rest}"));
        shown
    }

    pub fn post(&self, path: &str, body: Value) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.url)).json(&body)
    }

    pub fn tool_over_mcp(&self, name: &str, arguments: Value) -> RequestBuilder {
        let params = json!({ "name": name, "arguments": arguments });
        self.post("/mcp", json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
            .header("Accept", "application/json, text/event-stream")
    }

    /// Looks for every secret in all that was heard, and in Postgres' log. That one names every statement's
    /// parameters here, so it holds the hashes of keys, but never a key.
    pub fn judge(&self, postgres: &str, peer: &Agent) {
        let all = self.heard.iter().map(|(place, text)| (place.as_str(), text.as_str()));
        let postgres = postgres.to_lowercase();
        let stored = forms::of_hash(&peer.key)[0].clone();
        assert!(postgres.contains(&stored), "Postgres' log is not the one of this database");
        let credentials = all.clone().find(|(place, _)| *place == "the table credential").unwrap().1;
        assert!(credentials.contains(&stored), "the dump is no dump");
        for (name, secret) in &self.secrets {
            for form in forms::of(secret) {
                for (place, text) in all.clone().chain([("Postgres' log", postgres.as_str())]) {
                    assert!(!text.contains(&form), "{name} left by {place}: {}", around(text, &form));
                }
            }
            for form in forms::of_hash(secret) {
                for (place, text) in all.clone().filter(|(place, _)| *place != "the table credential") {
                    assert!(
                        !text.contains(&form),
                        "the hash of {name} left by {place}: {}",
                        around(text, &form)
                    );
                }
            }
            if *name == HOOK_SECRET {
                for form in forms::of_hash(secret).into_iter().chain(forms::of_signing_key(secret)) {
                    for (place, text) in all.clone().chain([("Postgres' log", postgres.as_str())]) {
                        assert!(
                            !text.contains(&form),
                            "the key of {name} left by {place}: {}",
                            around(text, &form)
                        );
                    }
                }
            }
            if matches!(*name, "wallet_private_key" | "ticket" | HOOK_SECRET) {
                assert!(!credentials.contains(&forms::of_hash(secret)[0]));
            } else {
                let hash = format!("\"key_hash\":\"\\\\x{}\"", forms::of_hash(secret)[0]);
                assert_eq!(credentials.matches(&forms::of_hash(secret)[0]).count(), 1);
                assert!(credentials.contains(&hash), "{credentials}");
            }
        }
    }
}

/// The text around a find, for whoever must mend it.
fn around<'a>(text: &'a str, form: &str) -> &'a str {
    let at = text.find(form).unwrap();
    let from = text.floor_char_boundary(at.saturating_sub(300));
    let to = text.ceil_char_boundary((at + form.len() + 100).min(text.len()));
    &text[from..to]
}
