//! What tools answer fits the output schema they publish: clients refuse it otherwise.

use serde_json::{Value, json};

use super::client::{Client, Keys};
use crate::house::House;

#[tokio::test]
async fn every_answer_and_every_failure_fits_the_published_output_schema() {
    let house = House::open().await;
    let client = Checked::new(Client::modern(&house)).await;
    let ada = client.call("register", json!({ "auto_provision_testnet_wallet": true })).await;
    let bob = client.call("register", json!({ "owner_key": ada["owner_key"] })).await;
    let [to_ada, to_bob] = [&ada, &bob].map(|agent| client.with(agent["api_key"].as_str().unwrap()));

    to_ada.call("who_am_i", json!({})).await;
    let letter = json!({ "recipient_agent_id": bob["agent_id"], "body": "hello", "ack_requested": true,
        "parts": [{ "text": "a part" }], "client_message_id": "1" });
    to_ada.call("mailbox_send", letter.clone()).await;
    to_ada.call("mailbox_send", letter).await;
    let page = to_bob.call("mailbox_check", json!({})).await;
    to_bob.call("mailbox_check", json!({ "since": page["next_since"] })).await;
    to_bob.call("mailbox_check", json!({ "since": 999 })).await;
    let claimed = to_bob.call("mailbox_claim", json!({})).await;
    to_bob.call("mailbox_claim", json!({ "run_id": claimed["run_id"] })).await;
    let ids: Vec<_> = claimed["messages"].as_array().unwrap().iter().map(|message| &message["id"]).collect();
    to_bob.call("mailbox_ack", json!({ "message_ids": ids, "reply_text": "done", "ack_id": "1" })).await;
    to_bob.call("mailbox_ack", json!({ "message_ids": ids, "reply_text": "done", "ack_id": "1" })).await;
    to_bob.call("mailbox_claim", json!({})).await;
    client
        .call("renew_agent_key", json!({ "owner_key": ada["owner_key"], "agent_id": bob["agent_id"] }))
        .await;

    to_bob.call("who_am_i", json!({ "box_key": "wpa_x" })).await;
    to_ada.call("mailbox_send", json!({ "recipient_agent_name": "nobody", "body": "x" })).await;
    to_ada.call("mailbox_check", json!({ "limit": 0 })).await;
    to_ada.call("mailbox_check", json!({ "limt": 1 })).await;
}

/// A client that judges every answer.
struct Checked {
    client: Client,
    tools: Value,
}

impl Checked {
    async fn new(client: Client) -> Checked {
        let tools = client.ask("tools/list", json!({})).await.result()["tools"].clone();
        Checked { client, tools }
    }

    fn with(&self, key: &str) -> Checked {
        Checked { client: self.client.with(Keys::bearer(key)), tools: self.tools.clone() }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let said = self.client.call(tool, arguments).await;
        if said.status == 401 {
            return Value::Null;
        }
        let answer = said.result()["structuredContent"].clone();
        let listed = self.tools.as_array().unwrap().iter().find(|listed| listed["name"] == tool);
        let schema = &listed.unwrap()["outputSchema"];
        if let Err(problem) = fits(&answer, schema) {
            panic!("{tool} answers {answer}, whose {problem}");
        }
        answer
    }
}

/// Judges by the keywords that answers' schemas use.
fn fits(value: &Value, schema: &Value) -> Result<(), String> {
    if let Some(choices) = schema["anyOf"].as_array() {
        let tried: Vec<_> = choices.iter().map(|choice| fits(value, choice)).collect();
        if tried.iter().all(Result::is_err) {
            return Err(format!("every choice fails: {tried:?}"));
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = schema["type"].as_str();
    if wanted.is_some_and(|wanted| wanted != kind && !(wanted == "number" && kind == "integer")) {
        return Err(format!("value is of the type {kind}"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Err("value is none of the enum".into());
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| value.get(name).is_none()) {
        return Err(format!("{missing} is missing"));
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        match &schema["properties"][name] {
            Value::Null if schema["additionalProperties"] == false => {
                return Err(format!("{name} is too much"));
            }
            Value::Null => {}
            inner => fits(member, inner).map_err(|problem| format!("{name}: {problem}"))?,
        }
    }
    if !schema["items"].is_null() {
        for item in value.as_array().into_iter().flatten() {
            fits(item, &schema["items"]).map_err(|problem| format!("item: {problem}"))?;
        }
    }
    Ok(())
}
