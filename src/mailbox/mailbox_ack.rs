//! `mailbox_ack`: settles messages for good, with an optional reply in the same transaction.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::owned::verify_agent;
use super::{recipient, rules};
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::inbox::{Acks, Key, Letter, Posted, Posting, Sender, Verdict};

mod named;
use named::Named;

/// Mark messages done, for good: an acked message is never served again.
///
/// reply_text answers the sender on the same thread, when all messages came from one peer. With
/// ack_id a retry answers the original and sends no second reply. A probe needs ack_body
/// {nonce, body_hash}.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MailboxAck {
    /// Your key for this ack, 1-128 characters: makes retries safe.
    ack_id: Option<String>,
    /// Kept with the ack. For a probe: {nonce, body_hash = hex SHA-256 of nonce followed by body}.
    ack_body: Option<Map<String, Value>>,
    /// A reply to the one peer that sent these messages, at most 4,000 characters.
    #[schemars(length(max = 4000))]
    reply_text: Option<String>,
    /// Ids from mailbox_claim or mailbox_check.
    #[schemars(length(min = 1))]
    message_ids: Vec<Uuid>,
}

/// What was settled.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Acked {
    /// How many messages this call acked.
    acked: usize,
    /// How many had been acked before.
    already_acked: usize,
    /// Ids that are not in this mailbox.
    unknown: Vec<Uuid>,
    /// The reply, if one was sent.
    reply: Option<Reply>,
    /// Why no reply was sent, when reply_text was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_skipped: Option<ReplySkipped>,
    /// True: this ack_id was used before, and this is its answer.
    replayed: bool,
}

/// A reply that was sent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// The reply's message id.
    message_id: Uuid,
    /// Who got it.
    recipient_agent_id: Uuid,
}

/// Why a reply was not sent, though the ack counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplySkipped {
    /// The messages came from several peers: ack each peer's by itself to reply.
    SeveralSenders,
    /// Notices of this service take no reply.
    SystemNotices,
    /// Everything had been acked before.
    AlreadyAcked,
    /// The sender is gone.
    SenderGone,
    /// The sender takes no mail from you.
    SenderRefusesMail,
}

/// Most bytes of a serialised ack_body.
const ACK_BODY_BYTES: usize = 16 * 1024;

impl Tool for MailboxAck {
    type Answer = Acked;
    const SPEC: Spec = Spec {
        name: "mailbox_ack",
        title: "Mark messages done",
        access: Access::Agent,
        effect: Effect::Transaction,
        hints: Hints::SETS,
        reach: Reach::Everywhere,
        routes: &[Route::post("/api/v1/mailbox/ack")],
    };
    const ALSO_CALLED: &'static [(&'static str, &'static str)] = &[
        ("ids", "message_ids"),
        ("reply", "reply_text"),
        ("idempotency_key", "ack_id"),
        ("message_id", "message_ids"),
    ];

    async fn run(&self, call: &mut Call<'_>) -> Result<Acked> {
        self.judge()?;
        let named = named::find(call, &self.message_ids).await?;
        if named.is_empty() {
            return Err(Error::NotFound("message in this mailbox"));
        }
        let proof = self.ack_body.clone().map(Value::Object);
        for probe in named.iter().filter(|message| !message.is_acked) {
            probe.judge_proof(proof.as_ref())?;
        }
        let reply = self.reply(call, &named).await?;
        let terms = Terms {
            unknown: self.unknown(&named),
            // A reply that is not sent all the same has lost a race: another call acked everything first.
            skipped: reply.as_ref().map_or_else(|skipped| *skipped, |_| Some(ReplySkipped::AlreadyAcked)),
        };
        let posting = self.posting(call, reply.ok(), proof, terms.clone())?;
        match recipient::post(call, posting).await? {
            Verdict::Posted(posted) => {
                self.verify(call, &named, &posted).await?;
                Ok(terms.answer(&posted))
            }
            Verdict::Replayed(answer) => {
                call.mark_replay();
                let original: Acked = serde_json::from_value(answer).map_err(Error::internal)?;
                Ok(Acked { replayed: true, ..original })
            }
            Verdict::KeyReused => Err(Error::IdempotencyConflict("ack_id")),
            Verdict::NoMailbox(_) | Verdict::MailboxFull(_) | Verdict::SenderFull(_) => {
                Err(Error::internal("a reply is not counted, and its mailbox was there"))
            }
        }
    }
}

impl MailboxAck {
    fn judge(&self) -> Result<()> {
        rules::judge_key("ack_id", self.ack_id.as_deref(), 128)?;
        if self.reply_text.as_deref().is_some_and(|text| text.trim().is_empty()) {
            return Err(Error::invalid(
                "reply_text",
                "must not be blank; leave it out to ack without a reply",
            ));
        }
        let size = self.ack_body.as_ref().map_or(0, |body| json!(body).to_string().len());
        match size > ACK_BODY_BYTES {
            true => {
                Err(Error::invalid("ack_body", format!("must be at most {ACK_BODY_BYTES} bytes of JSON")))
            }
            false => Ok(()),
        }
    }

    fn unknown(&self, named: &[Named]) -> Vec<Uuid> {
        let known: HashSet<Uuid> = named.iter().map(|message| message.message_id).collect();
        let mut seen = HashSet::new();
        self.message_ids.iter().filter(|id| !known.contains(id) && seen.insert(**id)).copied().collect()
    }

    /// The reply to send, or why there is none (`Err(None)`: none was asked for).
    async fn reply(
        &self,
        call: &mut Call<'_>,
        named: &[Named],
    ) -> Result<std::result::Result<Letter, Option<ReplySkipped>>> {
        let Some(text) = &self.reply_text else { return Ok(Err(None)) };
        let open: Vec<&Named> = named.iter().filter(|message| !message.is_acked).collect();
        if open.is_empty() {
            return Ok(Err(Some(ReplySkipped::AlreadyAcked)));
        }
        let from_peers: Vec<&Named> = open.into_iter().filter(|message| message.sender.is_some()).collect();
        let Some(Named { message_id: oldest, sender: Some(peer), .. }) = from_peers.first() else {
            return Ok(Err(Some(ReplySkipped::SystemNotices)));
        };
        if from_peers.iter().any(|message| message.sender != Some(*peer)) {
            return Ok(Err(Some(ReplySkipped::SeveralSenders)));
        }
        match recipient::takes_mail(call, *peer).await? {
            Some(true) => {}
            Some(false) => return Ok(Err(Some(ReplySkipped::SenderRefusesMail))),
            None => return Ok(Err(Some(ReplySkipped::SenderGone))),
        }
        let threads: Vec<Option<Uuid>> = from_peers.iter().map(|message| message.thread_id).collect();
        let sender = call.caller.agent()?;
        Ok(Ok(Letter {
            to: *peer,
            message_id: Uuid::now_v7(),
            sender: Sender::Agent { agent_id: sender.agent_id, name: sender.agent_name.clone() },
            message_type: "agent_reply".into(),
            body: text.clone(),
            parts: None,
            thread_id: Some(rules::reply_thread(*oldest, &threads)),
            in_reply_to: Some(*oldest),
            ack_requested: false,
            ack_deadline: None,
            probe_nonce: None,
            counted: false,
        }))
    }

    fn posting(
        &self,
        call: &Call<'_>,
        reply: Option<Letter>,
        ack_body: Option<Value>,
        terms: Terms,
    ) -> Result<Posting> {
        let agent_id = call.caller.agent()?.agent_id;
        let mut message_ids = self.message_ids.clone();
        message_ids.sort_unstable();
        message_ids.dedup();
        let key = self.ack_id.as_ref().map(|key| Key {
            agent_id,
            namespace: "ack_id",
            key: key.clone(),
            fingerprint: call.fingerprint.0,
            answer: Box::new(move |posted| json!(terms.answer(posted))),
        });
        Ok(Posting {
            org_id: call.caller.org.org_id,
            letters: reply.into_iter().collect(),
            acks: Some(Acks { agent_id, message_ids, ack_body }),
            only_with_ack: true,
            key,
        })
    }

    /// A probe that this call acked, with its proof judged, verifies the agent.
    async fn verify(&self, call: &mut Call<'_>, named: &[Named], posted: &Posted) -> Result<()> {
        let is_proven = |message: &&Named| message.is_probe() && posted.acked.contains(&message.message_id);
        match named.iter().find(is_proven) {
            Some(_) => verify_agent(call).await,
            None => Ok(()),
        }
    }
}

/// What the answer says besides what was posted.
#[derive(Debug, Clone)]
struct Terms {
    unknown: Vec<Uuid>,
    /// Why there is no reply, if none is sent.
    skipped: Option<ReplySkipped>,
}

impl Terms {
    fn answer(&self, posted: &Posted) -> Acked {
        let reply = posted.delivered.first();
        Acked {
            acked: posted.acked.len(),
            already_acked: posted.already_acked.len(),
            unknown: self.unknown.clone(),
            reply: reply.map(|reply| Reply { message_id: reply.message_id, recipient_agent_id: reply.to }),
            reply_skipped: self.skipped.filter(|_| reply.is_none()),
            replayed: false,
        }
    }
}
