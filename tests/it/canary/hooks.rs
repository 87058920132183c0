//! The secret of a webhook, in every place it comes by: registering, refusals, notices, failures and faults.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::watch::{HOOK_SECRET, Watch};
use crate::house::{Agent, House, until};
use crate::webhooks::receiver::{Manners, Receiver};

impl Watch {
    /// Registers webhooks at both doors, has notices taken and refused, and fails wherever the secret is at hand.
    pub async fn use_webhooks(&mut self, house: &House, peer: &Agent) {
        let receiver = Receiver::open().await;
        let agent = Agent::of(&self.show("register one more", self.post("/api/v1/onboard", json!({}))).await);
        let path = format!("/api/v1/agents/{}/webhook", agent.id);
        for over_mcp in [false, true] {
            let secret = self.new_hook_secret();
            let arguments = json!({ "url": receiver.url("/a"), "secret": secret });
            let request = match over_mcp {
                true => self.tool_over_mcp("webhook_register", arguments),
                false => self.put(&path, arguments),
            };
            self.register(request.bearer_auth(&agent.key)).await;
            let before = receiver.all().len();
            until("told of what waits", async || receiver.all().len() > before).await;
        }
        let get = self.http.get(format!("{}{path}", self.url)).bearer_auth(&agent.key);
        assert_eq!(self.ask("webhook_show", get).await.1["state"], "active");
        let verify = self.post(&format!("{path}/verify"), json!({})).bearer_auth(&agent.key);
        assert_eq!(self.ask("webhook_verify", verify).await.0, 200);

        receiver.behave("/a", Manners::Status(410));
        let letter = json!({ "recipient_agent_id": agent.id, "body": "hello" });
        let send = self.post("/api/v1/mailbox/messages", letter).bearer_auth(&peer.key);
        self.ask("mailbox_send to one with a webhook", send).await;
        until("disabled", async || {
            let states = "select count(*) from webhook where state = 'disabled'";
            sqlx::query_scalar::<_, i64>(states).fetch_one(&house.db).await.unwrap() == 1
        })
        .await;
        self.register_wrongly(house, &agent, &path, &receiver).await;
        for notice in receiver.all() {
            self.hear("a notice", &format!("{:?} {}", notice.headers, notice.body));
        }
        self.hear("the requests of an endpoint", &receiver.requests().concat());
    }

    /// Registers with a secret and is refused, or fails for a fault of ours.
    async fn register_wrongly(&mut self, house: &House, agent: &Agent, path: &str, receiver: &Receiver) {
        let (secret, url) = (self.new_hook_secret(), receiver.url("/b"));
        let wrong = [
            json!({ "url": "http://hooks.example.com/", "secret": secret }),
            json!({ "url": format!("http://hooks.example.com/{secret}"), "secret": "x" }),
            json!({ "url": format!("https://{secret}@hooks.example.com/"), "secret": secret }),
            json!({ "url": secret, "secret": secret }),
            json!({ "url": url, "secret": secret.repeat(20) }),
            json!({ "url": url, "secret": [secret] }),
            json!({ "url": url, "secret": secret, secret.as_str(): secret }),
            json!({ "url": url, "secret": secret, "agent_id": secret }),
            json!({ "url": url, "secret": secret, "agent_id": Uuid::nil() }),
            json!({ "url": url, "secret": secret, "box_key": secret }),
            json!({ "url": url, "secret": "x", "challenge": secret }),
        ];
        for (number, arguments) in wrong.into_iter().enumerate() {
            let over_mcp = self.tool_over_mcp("webhook_register", arguments.clone()).bearer_auth(&agent.key);
            let said = self.ask(&format!("wrong webhook {number} over MCP"), over_mcp).await.1;
            assert_eq!(said["result"]["isError"], true, "{number}: {said}");
            let put = self.post("/api/v1/tools/webhook_register", arguments).bearer_auth(&agent.key);
            assert!(self.ask(&format!("wrong webhook {number}"), put).await.0 >= 400, "{number}");
        }
        let stranger = self.put(path, json!({ "url": url, "secret": secret }));
        assert_eq!(self.ask("a webhook without a key", stranger).await.0, 401);
        let rename = |from: &str, to: &str| AssertSqlSafe(format!("alter table {from} rename to {to}"));
        sqlx::raw_sql(rename("webhook", "gone")).execute(&house.db).await.unwrap();
        let put = self.put(path, json!({ "url": url, "secret": secret })).bearer_auth(&agent.key);
        let (status, _) = self.ask("a webhook without its table", put).await;
        sqlx::raw_sql(rename("gone", "webhook")).execute(&house.db).await.unwrap();
        assert_eq!(status, 500);
    }

    /// Registers; the one answer that shows the signing key, in a form that libraries take.
    async fn register(&mut self, request: RequestBuilder) {
        let answer = request.send().await.unwrap();
        let headers = format!("{:?}", answer.headers());
        let mut said: Value = answer.json().await.unwrap();
        if let Some(structured) = said.pointer("/result/structuredContent") {
            said = structured.clone();
        }
        let shown = said.as_object_mut().unwrap().remove("instructions").unwrap();
        assert!(shown.as_str().unwrap().contains("whsec_"), "{shown}");
        self.hear("webhook_register", &format!("{headers} {said}"));
    }

    fn new_hook_secret(&mut self) -> String {
        let secret = format!("my secret {}", Uuid::new_v4().simple());
        self.secrets.push((HOOK_SECRET, secret.clone()));
        secret
    }

    fn put(&self, path: &str, body: Value) -> RequestBuilder {
        self.http.request(Method::PUT, format!("{}{path}", self.url)).json(&body)
    }
}
