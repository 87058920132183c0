//! Answers that are not the plain one fit the published output schema too: retries, empty pages, batches again.
//! The plain ones and the failures are judged by the walks, at every door.

use serde_json::{Value, json};

use super::client::{Client, Keys};
use crate::house::House;
use crate::walks::json_schema;

#[tokio::test]
async fn retries_and_empty_answers_fit_the_published_output_schema() {
    let house = House::open().await;
    let client = Checked::new(Client::modern(&house)).await;
    let ada = client.call("register", json!({ "auto_provision_testnet_wallet": true })).await;
    let bob = client.call("register", json!({ "owner_key": ada["owner_key"] })).await;
    let [to_ada, to_bob] = [&ada, &bob].map(|agent| client.with(agent["api_key"].as_str().unwrap()));

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
        let answer = said.structured();
        let listed = self.tools.as_array().unwrap().iter().find(|listed| listed["name"] == tool);
        let schema = &listed.unwrap()["outputSchema"];
        if let Err(problem) = json_schema::validate(schema, &answer) {
            panic!("{tool} answers {answer}: {problem}");
        }
        answer
    }
}
