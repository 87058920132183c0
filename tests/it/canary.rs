//! No key leaves the pod in any form, but in the one answer that shows it: not in other answers, logs, metrics,
//! tables or what Postgres logs, whatever is done with the key and whatever fails. Nor does the secret of a webhook.

mod forms;
mod hooks;
mod mischief;
mod watch;

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Row as _};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::house::{Agent, House, cluster, last_poll, polled_since};
use crate::program::{self, Program};
use crate::webhooks::receiver::authority;
use watch::Watch;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_in_any_form_leaves_the_pod_but_in_the_answer_that_shows_it() {
    let house = House::empty().await;
    trace_statements(&house).await;
    let folder = program::folder();
    let logs = folder.path().join("stderr");
    let mut command = program::command_on(&house.options, folder.path());
    command.env("WAYPOST_EGRESS_CA", authority()).env("WAYPOST_UNSAFE_EGRESS", "loopback");
    command.env("WAYPOST_LOG", "trace").stderr(Stdio::from(File::create(&logs).unwrap()));
    let mut watch = Watch::over(Program::start(command).await);

    let (agent, peer) = watch.use_keys_rightly(&house).await;
    watch.use_keys_wrongly(&agent).await;
    watch.use_webhooks(&house, &peer).await;
    watch.break_the_database(&house, &agent).await;
    let ended = watch.drain(&house, &agent).await;

    let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let (logs, postgres) = (read(logs), read(cluster::log()));
    // Nothing says anything at a level below this one.
    assert!(logs.contains("\"DEBUG\"") && logs.contains("a call failed for a fault of ours"), "no logs");
    watch.hear("the log", &format!("{logs}{ended}"));
    for (table, rows) in tables(&house).await {
        watch.hear(&format!("the table {table}"), &rows);
    }
    watch.judge(&postgres, &peer);
}

/// Has Postgres log every statement with its parameters, as an operator may.
async fn trace_statements(house: &House) {
    let name = house.options.get_database().unwrap();
    for setting in ["log_statement = 'all'", "log_parameter_max_length_on_error = -1"] {
        let trace = format!("alter database {name} set {setting}");
        sqlx::raw_sql(AssertSqlSafe(trace)).execute(&house.db).await.unwrap();
    }
}

/// Every table with its rows as JSON; binary columns as hexadecimal digits.
async fn tables(house: &House) -> Vec<(String, String)> {
    let names =
        "select tablename::text from pg_tables where schemaname not in ('pg_catalog', 'information_schema')";
    let names: Vec<String> = sqlx::query_scalar(names).fetch_all(&house.db).await.unwrap();
    let mut tables = Vec::new();
    for name in names {
        let read = format!("select row_to_json(t)::text from {name} t");
        let rows = sqlx::query(AssertSqlSafe(read)).fetch_all(&house.db).await.unwrap();
        tables.push((name, rows.iter().map(|row| row.get::<String, _>(0) + "\n").collect()));
    }
    tables
}

impl Watch {
    /// Registers two agents, adds, renews and revokes keys, and calls with them in every place they may come in.
    async fn use_keys_rightly(&mut self, house: &House) -> (Agent, Agent) {
        let wallet = json!({ "agent_name": "Findable", "auto_provision_testnet_wallet": true });
        let mut agent = Agent::of(&self.show("register", self.post("/api/v1/onboard", wallet)).await);
        let owned = json!({ "owner_key": agent.owner_key });
        let peer = Agent::of(&self.show("register over MCP", self.tool_over_mcp("register", owned)).await);

        let keys = format!("/api/v1/agents/{}/keys", agent.id);
        let add = self.post(&keys, json!({})).header("X-Owner-Key", &agent.owner_key);
        let added = self.show("agent_key_add", add).await;
        let revoked = added["api_key"].as_str().unwrap().to_owned();
        self.revoke_under_a_held_read(
            house,
            &agent,
            &revoked,
            &format!("{keys}/{}", added["key_id"].as_str().unwrap()),
        )
        .await;
        let renew = json!({ "owner_key": agent.owner_key, "agent_id": agent.id });
        let renew = self.tool_over_mcp("renew_agent_key", renew);
        agent.key = self.show("renew_agent_key", renew).await["api_key"].as_str().unwrap().to_owned();

        let issue = self.post("/api/v1/inbox/stream-ticket", json!({})).bearer_auth(&agent.key);
        let ticket = self.show("stream_ticket", issue).await["ticket"].as_str().unwrap().to_owned();
        // A stream by ticket, and one that is refused because a key came along.
        let by_ticket = || self.http.get(format!("{}/api/v1/inbox/stream?wait=0&ticket={ticket}", self.url));
        let (alone, with_key) = (by_ticket(), by_ticket().bearer_auth(&agent.key));
        assert_eq!(self.ask("a stream by ticket", alone).await.0, 200);
        assert_eq!(self.ask("a stream by ticket and key", with_key).await.0, 401);

        let whoami = || self.http.get(format!("{}/api/v1/whoami", self.url));
        let right = [
            whoami().bearer_auth(&agent.key),
            whoami().header("X-API-Key", &agent.key),
            self.post("/api/v1/tools/who_am_i", json!({ "box_key": agent.key })),
            self.tool_over_mcp("who_am_i", json!({ "box_key": agent.key })),
            self.tool_over_mcp("who_am_i", json!({})).bearer_auth(&agent.key),
            self.http.get(format!("{}/api/v1/agents", self.url)).header("X-Owner-Key", &agent.owner_key),
        ];
        for (number, request) in right.into_iter().enumerate() {
            assert_eq!(self.ask(&format!("right use {number}"), request).await.0, 200, "{number}");
        }
        let mail = json!({ "recipient_agent_id": agent.id, "body": "hello", "client_message_id": "1" });
        let send = self.post("/api/v1/mailbox/messages", mail).bearer_auth(&peer.key);
        self.ask("mailbox_send", send).await;
        let claim = self.post("/api/v1/mailbox/claim", json!({})).bearer_auth(&agent.key);
        let claimed = self.ask("mailbox_claim", claim).await.1;
        let ids: Vec<&Value> = claimed["messages"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
        let ack = json!({ "message_ids": ids, "reply_text": "done", "ack_id": "1" });
        let ack = self.post("/api/v1/mailbox/ack", ack).bearer_auth(&agent.key);
        assert!(self.ask("mailbox_ack", ack).await.1["reply"].is_object());
        (agent, peer)
    }

    /// A read that is held when its key is revoked ends with a refusal.
    async fn revoke_under_a_held_read(&mut self, house: &House, agent: &Agent, key: &str, path: &str) {
        let before = last_poll(house, agent).await;
        let read = format!("{}/api/v1/mailbox/messages?since=1&wait=25", self.url);
        let mut held = JoinSet::new();
        held.spawn(self.http.get(read).bearer_auth(key).send());
        polled_since(house, agent, before).await;
        let revoke = self.http.request(Method::DELETE, format!("{}{path}", self.url));
        self.ask("agent_key_revoke", revoke.header("X-Owner-Key", &agent.owner_key)).await;
        let ended =
            timeout(Duration::from_secs(60), held.join_next()).await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(ended.status(), 401);
        let headers = format!("{:?}", ended.headers());
        let text = ended.text().await.unwrap();
        self.hear("the end of a held read", &format!("{headers} {text}"));
    }

    /// Every secret in every place that is not its own.
    async fn use_keys_wrongly(&mut self, agent: &Agent) {
        let secrets = self.secrets.clone();
        assert_eq!(secrets.len(), 8, "{:?}", secrets.iter().map(|(name, _)| name).collect::<Vec<_>>());
        for (_, secret) in &secrets {
            for (what, request) in mischief::encoded(&self.http, &self.url, secret) {
                self.ask(&format!("{what}, encoded"), request).await;
            }
            let bare = secret.strip_prefix("0x");
            for secret in bare.into_iter().chain([secret.as_str()]) {
                for (what, request) in mischief::requests(&self.http, &self.url, secret) {
                    self.ask(&what, request).await;
                }
                for (tool, arguments) in mischief::arguments(secret) {
                    let request = self.post(&format!("/api/v1/tools/{tool}"), arguments.clone());
                    self.ask(&format!("an argument of {tool}"), request.bearer_auth(&agent.key)).await;
                    let request = self.tool_over_mcp(tool, arguments);
                    self.ask(&format!("an argument of {tool} over MCP"), request.bearer_auth(&agent.key))
                        .await;
                }
                let said = mischief::broken(&self.url, secret).await;
                self.hear("what is said to broken requests", &said);
            }
        }
    }

    /// Calls that fail for faults of ours, with fresh keys among their statements' parameters.
    async fn break_the_database(&mut self, house: &House, agent: &Agent) {
        for (table, path) in [
            ("credential", "/api/v1/onboard"),
            ("mailbox", "/api/v1/onboard"),
            ("mailbox", "/api/v1/mailbox/claim"),
        ] {
            let rename = |from: &str, to: &str| AssertSqlSafe(format!("alter table {from} rename to {to}"));
            sqlx::raw_sql(rename(table, "gone")).execute(&house.db).await.unwrap();
            let request = self.post(path, json!({})).bearer_auth(&agent.key);
            let (status, _) = self.ask("a call without a table", request).await;
            sqlx::raw_sql(rename("gone", table)).execute(&house.db).await.unwrap();
            assert_eq!(status, 500, "{table}");
        }
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and application_name = 'waypost'";
        sqlx::query(cut).execute(&house.db).await.unwrap();
        let request = self.post("/api/v1/tools/who_am_i", json!({ "box_key": agent.key }));
        self.ask("a call on cut connections", request).await;
    }

    /// Reads the metrics, then ends the pod under a held read. What it still said is the answer.
    async fn drain(&mut self, house: &House, agent: &Agent) -> String {
        let metrics = self.http.get(format!("{}/metrics", self.pod().ops));
        let (_, text) = self.ask("/metrics", metrics).await;
        assert!(text.to_string().contains("waypost_calls_total"), "no metrics");
        let before = last_poll(house, agent).await;
        let read = format!("{}/api/v1/mailbox/messages?since=2&wait=25", self.url);
        let mut held = JoinSet::new();
        held.spawn(self.http.get(read).bearer_auth(&agent.key).send());
        polled_since(house, agent, before).await;
        self.pod().signal(Signal::SIGTERM);
        let answer =
            timeout(Duration::from_secs(60), held.join_next()).await.unwrap().unwrap().unwrap().unwrap();
        let headers = format!("{:?}", answer.headers());
        let text = answer.text().await.unwrap();
        self.hear("the answer of a drained read", &format!("{headers} {text}"));
        let ended = self.pod.take().unwrap().ended().await;
        assert!(ended.status.success());
        format!("{}{}", ended.more, ended.stderr)
    }
}
