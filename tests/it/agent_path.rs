//! An agent that knows only the URL gets to a reply in a few calls: everything it sends it was told by the
//! instructions, by `next_actions` or by a refusal.

use std::collections::HashMap;

use regex::Regex;
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{Agent, House};

/// Calls from `register` to the acked reply, both counted.
const BUDGET: usize = 6;

/// What the agent writes where it is told to write something.
const OWN_WORDS: &str = "Thanks, it is done.";

#[tokio::test]
async fn over_mcp_without_headers_an_agent_that_knows_only_the_url_replies_in_six_calls() {
    let house = House::open().await;
    reply_over_mcp(&house, house.url(0)).await;
}

/// From the URL to a reply over MCP, whatever stands between the URL and the house.
pub async fn reply_over_mcp(house: &House, url: String) {
    let peer = house.register_with(json!({ "agent_name": "peer" })).await;
    let mut agent = Newcomer::at(url);
    let discovered = agent.rpc("initialize", json!({ "protocolVersion": "2025-11-25" })).await;
    let instructions = discovered["instructions"].as_str().unwrap();
    let begin = told(instructions, r"Call ([a-z_]+)");

    let registered = agent.tool(&begin, &json!({})).await;
    mail(house, &peer, &registered).await;
    // Eager, it calls without the key first; the refusal says which argument takes which field.
    let next = registered["next_actions"][0].clone();
    let refused = agent.tool(next["tool"].as_str().unwrap(), &json!({})).await;
    let message = refused["error"]["message"].as_str().unwrap();
    let (field, argument) = (told(message, r"send its (\w+)"), told(message, r"as the argument (\w+)"));
    assert_eq!(
        (&told(instructions, r"as the argument (\w+)"), &told(instructions, r"Send (\w+) with")),
        (&argument, &field)
    );

    let mut reply = Value::Null;
    for action in registered["next_actions"].as_array().unwrap() {
        assert_eq!(agent.filled(&action["arguments"])[&argument], registered[&field], "{action}");
        // It waits for mail only when it has read none yet.
        if agent.has_read_mail() && action["arguments"].get("wait").is_some() {
            continue;
        }
        let tool = action["tool"].as_str().unwrap();
        reply = agent.tool(tool, &agent.filled(&action["arguments"])).await["reply"].clone();
        if reply.is_object() {
            break;
        }
    }
    judge(house, &peer, &reply, agent.calls).await;
}

#[tokio::test]
async fn over_rest_an_agent_that_knows_only_the_url_replies_in_six_calls() {
    let house = House::open().await;
    reply_over_rest(&house, house.url(0)).await;
}

/// The same over REST.
pub async fn reply_over_rest(house: &House, url: String) {
    let peer = house.register_with(json!({ "agent_name": "peer" })).await;
    let text = reqwest::get(format!("{url}/llms.txt")).await.unwrap().text().await.unwrap();
    let mut agent = Newcomer::at(url);
    let scheme = told(&text, r"`Authorization: (\w+)`");
    let begin = Regex::new(r"(?s)```\ncurl -X (\w+) \S+?(/api\S+) .*?-d '(.*?)'\n```").unwrap();
    let begin = begin.captures(&text).unwrap();
    let body: Value = serde_json::from_str(&begin[3]).unwrap();
    let registered = agent.rest(&format!("{} {}", &begin[1], &begin[2]), "register", &body, None).await;

    let field = told(&text, r"Send `(\w+)` with every later call");
    let authorization = format!("{scheme} {}", registered[&field].as_str().unwrap());
    let mut reply = Value::Null;
    for action in registered["next_actions"].as_array().unwrap() {
        // Here the peer writes while the agent waits, or just before.
        let waiting = action["arguments"].get("wait").is_some();
        let mut arguments = agent.filled(&action["arguments"]);
        arguments.as_object_mut().unwrap().remove("box_key");
        let (line, tool) =
            (agent.filled_text(action["rest"].as_str().unwrap()), action["tool"].as_str().unwrap());
        let call = agent.rest(&line, tool, &arguments, Some(&authorization));
        let answer = match waiting {
            true => tokio::join!(call, mail(house, &peer, &registered)).0,
            false => call.await,
        };
        assert!(!waiting || answer["messages"][0]["sender_name"] == "peer", "{answer}");
        reply = answer["reply"].clone();
        if reply.is_object() {
            break;
        }
    }
    judge(house, &peer, &reply, agent.calls).await;
}

#[tokio::test]
async fn the_tools_cost_little_to_list_and_each_says_when_to_use_it() {
    let house = House::open().await;
    let listed = Newcomer::at(house.url(0)).rpc("tools/list", json!({})).await;
    // About 5,000 tokens, which every conversation with the mailbox pays.
    let size = listed.to_string().len();
    assert!(size < 20_000, "{size} bytes");
    for tool in listed["tools"].as_array().unwrap() {
        let (name, description) = (&tool["name"], tool["description"].as_str().unwrap());
        assert!(description.chars().count() <= 600, "{name}: {}", description.chars().count());
        let says_when = ["Use it", "Call it"].iter().any(|when| description.contains(when));
        assert!(says_when, "{name} does not say when to use it: {description}");
    }
}

/// The peer saw the reply, and it took no more calls than promised.
async fn judge(house: &House, peer: &Agent, reply: &Value, calls: usize) {
    let read = house.ok(peer, "mailbox_check", json!({ "since": 1 })).await;
    let got = &read["messages"][0];
    assert_eq!((&got["id"], &got["body"]), (&reply["message_id"], &json!(OWN_WORDS)), "{reply} {read}");
    assert!(calls <= BUDGET, "{calls} calls");
}

async fn mail(house: &House, peer: &Agent, registered: &Value) {
    let letter = json!({ "recipient_agent_id": registered["agent_id"], "body": "please do it" });
    house.ok(peer, "mailbox_send", letter).await;
}

/// The first thing a text tells of this shape.
fn told(text: &str, shape: &str) -> String {
    Regex::new(shape).unwrap().captures(text).unwrap_or_else(|| panic!("{shape} in {text}"))[1].to_owned()
}

/// An agent without knowledge. It remembers what each tool answered last, and fills placeholders from that.
struct Newcomer {
    url: String,
    http: reqwest::Client,
    answers: HashMap<String, Value>,
    calls: usize,
}

impl Newcomer {
    fn at(url: String) -> Newcomer {
        Newcomer { url, http: reqwest::Client::new(), answers: HashMap::new(), calls: 0 }
    }

    /// What a method of MCP answers.
    async fn rpc(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let accept = "application/json, text/event-stream";
        let request = self.http.post(format!("{}/mcp", self.url)).header("Accept", accept).json(&body);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["result"].clone()
    }

    async fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let result = self.rpc("tools/call", json!({ "name": name, "arguments": arguments })).await;
        self.remember(name, result["structuredContent"].clone())
    }

    /// Sends `METHOD /path`.
    async fn rest(&mut self, line: &str, tool: &str, body: &Value, authorization: Option<&str>) -> Value {
        let (method, path) = line.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.url));
        if method == Method::POST {
            request = request.json(body);
        }
        if let Some(authorization) = authorization {
            request = request.header("Authorization", authorization);
        }
        let answer = request.send().await.unwrap().json().await.unwrap();
        self.remember(tool, answer)
    }

    fn remember(&mut self, tool: &str, answer: Value) -> Value {
        self.calls += 1;
        self.answers.insert(tool.to_owned(), answer.clone());
        answer
    }

    /// Whether the last page it read holds anything but notices.
    fn has_read_mail(&self) -> bool {
        let messages = self.answers.values().filter_map(|answer| answer["messages"].as_array()).flatten();
        messages.into_iter().any(|message| message["sender_type"] == "agent")
    }

    /// Arguments with every placeholder filled.
    fn filled(&self, arguments: &Value) -> Value {
        match arguments {
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.clone(), self.filled(value))).collect()
            }
            Value::Array(items) => items.iter().flat_map(|item| self.meant(item)).collect(),
            value => self.meant(value).remove(0),
        }
    }

    fn filled_text(&self, text: &str) -> String {
        let placeholder = Regex::new("<[^>]*>").unwrap();
        let fill = |found: &regex::Captures<'_>| self.meant(&json!(found[0]))[0].to_string();
        placeholder.replace_all(text, fill).into_owned()
    }

    /// What a placeholder stands for: `<field of tool>`, `<field>` of the registration, or words of its own.
    fn meant(&self, value: &Value) -> Vec<Value> {
        let Some(inside) = value.as_str().and_then(|text| text.strip_prefix('<')?.strip_suffix('>')) else {
            return vec![value.clone()];
        };
        let (path, tool) = inside.split_once(" of ").unwrap_or((inside, "register"));
        let Some(answer) = self.answers.get(tool) else { return vec![json!(OWN_WORDS)] };
        let found = match path.split_once("[].") {
            Some((list, field)) => {
                answer[list].as_array().into_iter().flatten().map(|item| item[field].clone()).collect()
            }
            None => vec![answer[path].clone()],
        };
        match found.iter().any(Value::is_null) {
            true => vec![json!(OWN_WORDS)],
            false => found,
        }
    }
}
