//! `mailbox_ack`: settles messages for good, with an optional reply in the same transaction.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{retry, rules};
use crate::call::caller::BAD_AGENT_KEY;
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::error::ProbePart;
use crate::inbox::{Acks, Key, Posted, Posting, Verdict};

mod named;
mod reply;
use named::Named;
use reply::Reply;

/// Mark messages done, for good: an acked message is never served again. Use it once you have done
/// what a message asks.
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
    reply: Option<SentReply>,
    /// Why no reply was sent, when reply_text was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_skipped: Option<ReplySkipped>,
    /// True: this ack_id was used before, and this is its answer.
    replayed: bool,
}

/// A reply that was sent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SentReply {
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
        effect: Effect::Posting,
        hints: Hints::SETS,
        reach: Reach::Everywhere,
        routes: &[Route::post("/api/v1/mailbox/ack")],
    };
    const REFUSES: &'static [&'static str] =
        &["not_found", "idempotency_conflict", "probe_nonce_mismatch", "probe_body_hash_mismatch"];
    const EXAMPLE: Option<&'static str> = Some(
        r#"{"message_ids":["01a22cc3-3246-7322-96ed-f14044286714"],"reply_text":"The draft is ready."}"#,
    );
    const ALSO_CALLED: &'static [(&'static str, &'static str)] = &[
        ("ids", "message_ids"),
        ("reply", "reply_text"),
        ("idempotency_key", "ack_id"),
        ("message_id", "message_ids"),
    ];

    async fn run(&self, call: &mut Call<'_>) -> Result<Acked> {
        self.judge()?;
        let named = match self.reply_text.is_some() || self.ack_body.is_some() {
            true => named::find(call, &self.message_ids).await?,
            // Posting looks at what it settles; only a reply and a proof need to know more, and before.
            false => Vec::new(),
        };
        let reply = reply::choose(call, &named, self.reply_text.as_deref())?;
        let (mut verdict, mut frame) = self.post(call, &named, reply).await?;
        // Whatever keeps the reply out, the ack counts all the same.
        let skipped = match verdict {
            Verdict::NoMailbox(_) => Some(ReplySkipped::SenderGone),
            Verdict::NotTaken(_) => Some(ReplySkipped::SenderRefusesMail),
            _ => None,
        };
        if let Some(why) = skipped {
            (verdict, frame) = self.post(call, &named, Reply::Skipped(why)).await?;
        }
        match verdict {
            Verdict::Posted(posted) => Ok(frame.answer(&posted)),
            Verdict::Replayed(answer) => retry::replayed(call, answer),
            Verdict::KeyReused => Err(Error::IdempotencyConflict(KEYS)),
            Verdict::NoneKnown => Err(Error::NotFound("message in this mailbox")),
            Verdict::Unproven(message_id) => Err(self.unproven(&named, message_id)),
            Verdict::NoMailbox(_) => Err(Error::Unauthorized(BAD_AGENT_KEY)),
            Verdict::NotTaken(_) | Verdict::MailboxFull(_) | Verdict::SenderFull(_) | Verdict::Elsewhere => {
                Err(Error::internal("a reply is not counted, and the caller has a mailbox"))
            }
        }
    }
}

/// The namespace of ack_id, and its name in refusals.
const KEYS: &str = "ack_id";

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

    /// What is wrong with the proof of a probe; one that was not there when we looked has none.
    fn unproven(&self, named: &[Named], message_id: Uuid) -> Error {
        let probe = named.iter().find(|message| message.message_id == message_id);
        let judged = probe.and_then(|probe| probe.judge_proof(self.proof().as_ref()).err());
        judged.unwrap_or(Error::ProbeMismatch { part: ProbePart::Nonce, message_id })
    }

    fn proof(&self) -> Option<Value> {
        self.ack_body.clone().map(Value::Object)
    }

    async fn post(&self, call: &mut Call<'_>, named: &[Named], reply: Reply) -> Result<(Verdict, Frame)> {
        let agent_id = call.caller.agent()?.agent_id;
        let (letters, skipped) = match reply {
            Reply::NotAsked => (Vec::new(), None),
            Reply::Skipped(why) => (Vec::new(), Some(why)),
            // One that is not sent all the same has lost a race: another call acked everything first.
            Reply::Sent(letter) => (vec![*letter], Some(ReplySkipped::AlreadyAcked)),
        };
        let mut seen = HashSet::new();
        let message_ids: Vec<Uuid> = self.message_ids.iter().copied().filter(|id| seen.insert(*id)).collect();
        let frame = Frame { named: message_ids.clone(), skipped };
        let kept = frame.clone();
        let key = self.ack_id.clone().map(|key| Key {
            agent_id,
            namespace: KEYS,
            key,
            fingerprint: call.fingerprint.0,
            answer: Box::new(move |posted| json!(Acked { replayed: true, ..kept.answer(posted) })),
        });
        let proof = self.proof();
        let proven = named.iter().filter(|message| message.is_proven_by(proof.as_ref()));
        let proven = proven.map(|message| message.message_id).collect();
        let acks = Acks { agent_id, message_ids, ack_body: proof, proven, needs_any: true };
        let (org_id, trace) = (call.caller.org.org_id, call.caller.trace.clone());
        let posting =
            Posting { org_id, letters, acks: Some(acks), claim: None, only_with_ack: true, key, trace };
        Ok((call.post(posting).await?, frame))
    }
}

/// What the answer says beside what was posted.
#[derive(Debug, Clone)]
struct Frame {
    /// The ids that were given; distinct.
    named: Vec<Uuid>,
    /// Why there is no reply, if none is sent.
    skipped: Option<ReplySkipped>,
}

impl Frame {
    fn answer(&self, posted: &Posted) -> Acked {
        let reply = posted.delivered.first();
        let known: HashSet<Uuid> = posted.acked.iter().chain(&posted.already_acked).copied().collect();
        Acked {
            acked: posted.acked.len(),
            already_acked: posted.already_acked.len(),
            unknown: self.named.iter().copied().filter(|id| !known.contains(id)).collect(),
            reply: reply
                .map(|reply| SentReply { message_id: reply.message_id, recipient_agent_id: reply.to }),
            reply_skipped: self.skipped.filter(|_| reply.is_none()),
            replayed: false,
        }
    }
}
