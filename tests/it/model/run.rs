//! One random history, taken step by step by the service and by the model.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};
use uuid::Uuid;

use super::plain::{Entry, Expected, Model};
use super::steps::{AGENTS, IDS, Step};
use crate::house::{Agent, House};

/// Three agents of their own, and the model of their mailboxes.
pub struct Run<'a> {
    house: &'a House,
    agents: Vec<Agent>,
    model: Model,
    last_ack: Option<(usize, Value)>,
    taken: usize,
}

type Checked = Result<(), TestCaseError>;

impl<'a> Run<'a> {
    pub async fn start(house: &'a House) -> Run<'a> {
        let (mut agents, mut model) = (Vec::new(), Model::default());
        for _ in 0..AGENTS {
            let agent = house.register().await;
            let checked = house.ok(&agent, "mailbox_check", json!({})).await;
            let id = text(&checked["messages"][0]["id"]);
            model.boxes.push(vec![Entry {
                id,
                sender: None,
                counted: false,
                ack_requested: false,
                thread: None,
                in_reply_to: None,
                acked: false,
                lease: None,
            }]);
            agents.push(agent);
        }
        Run { house, agents, model, last_ack: None, taken: 0 }
    }

    /// One step at both, compared; then the counts of one mailbox.
    pub async fn take(&mut self, step: Step) -> Checked {
        match step {
            Step::Send { from, to, asks, thread, answers, key } => {
                self.send(from, to, asks, thread, answers, key).await?
            }
            Step::Claim { agent, run, limit, only } => self.claim(agent, IDS[run], limit, only).await?,
            Step::Expire { agent, run } => self.expire(agent, IDS[run]).await,
            Step::Ack { agent, picks, elsewhere, reply, key } => {
                self.ack(agent, &picks, elsewhere, reply, key).await?
            }
            Step::AckAgain => {
                if let Some((agent, arguments)) = self.last_ack.clone() {
                    self.ack_with(agent, arguments).await?;
                }
            }
            Step::Check { agent, since } => {
                self.check(agent, since.index(self.model.boxes[agent].len() + 3)).await?
            }
        }
        // One mailbox after the other: what is wrong in one is still wrong at its turn.
        self.taken += 1;
        self.compare(self.taken % AGENTS).await
    }

    /// The counts of every mailbox, when all is done.
    pub async fn end(&self) -> Checked {
        for agent in 0..AGENTS {
            self.compare(agent).await?;
        }
        Ok(())
    }

    async fn compare(&self, agent: usize) -> Checked {
        let key = Some(self.agents[agent].key.as_str());
        let summary = self.house.get(0, "/api/v1/mailbox/summary", key).await.body;
        let expected = self.model.counts(agent);
        for (name, value) in expected.as_object().unwrap() {
            prop_assert_eq!(&summary[name], value, "{} of agent {}", name, agent);
        }
        Ok(())
    }

    async fn send(
        &mut self,
        from: usize,
        to: usize,
        asks: bool,
        thread: Option<usize>,
        answers: Option<Index>,
        key: Option<u8>,
    ) -> Checked {
        let key = key.map(|key| format!("k{key}"));
        // Any message there is, whosever it is.
        let all: Vec<String> = self.model.boxes.iter().flatten().map(|entry| entry.id.clone()).collect();
        let answers = answers.map(|answers| answers.get(&all).clone());
        let thread = thread.map(|thread| IDS[thread].to_owned());
        let arguments = json!({
            "recipient_agent_id": self.agents[to].id, "body": "mail", "ack_requested": asks,
            "thread_id": thread, "in_reply_to": answers, "client_message_id": key,
        });
        let received = answers.as_ref().map(|id| self.model.between(id, from, to));
        let expected = match received {
            Some(None) => Expected::Refused("not_found"),
            _ => Expected::Done,
        };
        let by_key = self.model.by_key(from, "client_message_id", &key, &arguments);
        let expected = match (by_key, expected) {
            (Some(by_key), _) => by_key,
            (None, Expected::Done) => self.model.full(from, to).unwrap_or(Expected::Done),
            (None, refused) => refused,
        };
        let answer = self.house.call(0, &self.agents[from], "mailbox_send", arguments.clone()).await;
        match expected {
            Expected::Refused(code) => prop_assert_eq!(&answer.body["code"], code, "{}", answer.body),
            Expected::Replayed(mut original) => {
                original["deduplicated"] = json!(true);
                prop_assert_eq!(answer.body, original);
            }
            Expected::Done => {
                prop_assert_eq!(answer.status, 200, "{}", answer.body);
                if let Some(Some(Some(place))) = received
                    && self.model.boxes[from][place].ack_requested
                {
                    self.model.boxes[from][place].acked = true;
                }
                let id = text(&answer.body["message_id"]);
                self.model.boxes[to].push(Entry {
                    id,
                    sender: Some(from),
                    counted: true,
                    ack_requested: asks,
                    thread,
                    in_reply_to: answers,
                    acked: false,
                    lease: None,
                });
                prop_assert_eq!(&answer.body["seq"], self.model.boxes[to].len());
                self.model.keep_key(from, "client_message_id", key, arguments, answer.body);
            }
        }
        Ok(())
    }

    async fn claim(&mut self, agent: usize, run: &str, limit: usize, only: Option<Vec<Index>>) -> Checked {
        let only = only.map(|picks| self.pick(agent, &picks));
        let (batch, skipped) = self.model.claim(agent, run, limit, only.as_deref());
        let arguments = json!({ "run_id": run, "limit": limit, "message_ids": only });
        let claimed = self.house.ok(&self.agents[agent], "mailbox_claim", arguments).await;
        let expected: Vec<(Value, Value, Value)> = (batch.iter())
            .map(|place| (json!(self.model.boxes[agent][*place].id), json!(place + 1), json!("claimed")))
            .collect();
        let shown = claimed["messages"].as_array().unwrap().iter();
        let shown: Vec<_> = shown.map(|m| (m["id"].clone(), m["seq"].clone(), m["state"].clone())).collect();
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(&claimed["skipped"], &json!(skipped));
        prop_assert_eq!(claimed["lease_expires_at"].is_null(), batch.is_empty());
        prop_assert_eq!(&claimed["remaining"], &self.model.counts(agent)["pending"]);
        Ok(())
    }

    /// The lease of a run ends: in the database it ended a minute ago.
    async fn expire(&mut self, agent: usize, run: &str) {
        self.model.expire(agent, run);
        let expire = "with past as (select clock_timestamp() - interval '1 minute' as at),
            runs as (update claim_run r set lease_until = past.at from past where r.agent_id = $1 and r.run_id = $2)
            update inbox_entry e set lease_until = past.at from past where e.agent_id = $1 and e.lease_run = $2";
        let agent_id: Uuid = self.agents[agent].id.parse().unwrap();
        let run_id: Uuid = run.parse().unwrap();
        sqlx::query(expire).bind(agent_id).bind(run_id).execute(&self.house.db).await.unwrap();
    }

    async fn ack(
        &mut self,
        agent: usize,
        picks: &[Index],
        elsewhere: bool,
        reply: bool,
        key: Option<u8>,
    ) -> Checked {
        let mut ids = self.pick(agent, picks);
        if elsewhere {
            ids.push(self.model.boxes[(agent + 1) % AGENTS][0].id.clone());
        }
        let mut arguments = json!({ "message_ids": ids, "ack_id": key.map(|key| format!("k{key}")) });
        if reply {
            arguments["reply_text"] = json!("answer");
        }
        self.last_ack = Some((agent, arguments.clone()));
        self.ack_with(agent, arguments).await
    }

    async fn ack_with(&mut self, agent: usize, arguments: Value) -> Checked {
        let key = arguments["ack_id"].as_str().map(str::to_owned);
        let ids: Vec<String> = arguments["message_ids"].as_array().unwrap().iter().map(text).collect();
        let answer = self.house.call(0, &self.agents[agent], "mailbox_ack", arguments.clone()).await;
        match self.model.by_key(agent, "ack_id", &key, &arguments) {
            Some(Expected::Replayed(mut original)) => {
                original["replayed"] = json!(true);
                prop_assert_eq!(answer.body, original);
                return Ok(());
            }
            Some(Expected::Refused(code)) => {
                prop_assert_eq!(&answer.body["code"], code, "{}", answer.body);
                return Ok(());
            }
            _ => {}
        }
        let Some(settled) = self.model.ack(agent, &ids, arguments.get("reply_text").is_some()) else {
            prop_assert_eq!(&answer.body["code"], "not_found");
            return Ok(());
        };
        prop_assert_eq!(&answer.body["acked"], settled.acked, "{}", answer.body);
        prop_assert_eq!(&answer.body["already_acked"], settled.already_acked);
        prop_assert_eq!(&answer.body["unknown"], &json!(settled.unknown));
        prop_assert_eq!(answer.body.get("reply_skipped").and_then(Value::as_str), settled.reply_skipped);
        prop_assert_eq!(&answer.body["replayed"], false);
        match settled.reply {
            None => prop_assert!(answer.body["reply"].is_null(), "{}", answer.body),
            Some((to, thread, in_reply_to)) => {
                prop_assert_eq!(&answer.body["reply"]["recipient_agent_id"], &self.agents[to].id);
                let id = text(&answer.body["reply"]["message_id"]);
                self.model.boxes[to].push(Entry {
                    id,
                    sender: Some(agent),
                    counted: false,
                    ack_requested: false,
                    thread: Some(thread),
                    in_reply_to: Some(in_reply_to),
                    acked: false,
                    lease: None,
                });
            }
        }
        self.model.keep_key(agent, "ack_id", key, arguments, answer.body);
        Ok(())
    }

    async fn check(&mut self, agent: usize, since: usize) -> Checked {
        let checked = self.house.ok(&self.agents[agent], "mailbox_check", json!({ "since": since })).await;
        let entries = &self.model.boxes[agent];
        let expected: Vec<Value> = (entries.iter().enumerate().skip(since))
            .map(|(place, entry)| {
                json!([
                    entry.id,
                    place + 1,
                    entry.state(),
                    entry.sender.map(|sender| &self.agents[sender].id),
                    entry.thread,
                    entry.in_reply_to
                ])
            })
            .collect();
        let shown = |m: &Value| {
            json!([m["id"], m["seq"], m["state"], m["sender_agent_id"], m["thread_id"], m["in_reply_to"]])
        };
        let shown: Vec<Value> = checked["messages"].as_array().unwrap().iter().map(shown).collect();
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(&checked["next_since"], entries.len());
        prop_assert_eq!(checked.get("cursor_ahead").is_some(), since > entries.len());
        Ok(())
    }

    /// Ids out of an agent's own mailbox; the same may come twice.
    fn pick(&self, agent: usize, picks: &[Index]) -> Vec<String> {
        picks.iter().map(|pick| pick.get(&self.model.boxes[agent]).id.clone()).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
