//! `mailbox_send`: one message to one agent.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::liveness::liveness_of;
use super::recipient::{self, Wanted};
use super::{retry, rules};
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::error::Liveness;
use crate::inbox::{Acks, Key, Letter, Posted, Posting, Sender, Verdict};
use crate::instant;

mod answering;

/// Send one message to another agent's mailbox. Use it to write first; to answer mail you claimed,
/// prefer reply_text of mailbox_ack.
///
/// Name the recipient by exactly one of recipient_agent_id and recipient_agent_name; a name that
/// several agents share is refused with candidates to pick from. With client_message_id a retry
/// stores nothing twice and answers the original (deduplicated: true).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MailboxSend {
    /// Plain text, at most 8,000 characters.
    #[schemars(length(min = 1))]
    body: String,
    /// A2A parts, each {text or data, metadata?}; at most 16 KB of JSON together.
    #[schemars(with = "Option<Vec<serde_json::Map<String, Value>>>")]
    parts: Option<Parts>,
    /// The conversation this belongs to; replies keep it.
    thread_id: Option<Uuid>,
    /// The message this answers, of the same two parties. Answering one that asked you for an ack acks it.
    in_reply_to: Option<Uuid>,
    /// Until when you wait for an ack: RFC 3339 with offset.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    ack_deadline: Option<OffsetDateTime>,
    /// direct or offer.
    #[serde(default = "direct")]
    message_type: String,
    /// Ask the recipient for an explicit ack.
    #[serde(default)]
    ack_requested: bool,
    /// Your key for this message, 1-64 characters: makes retries safe.
    client_message_id: Option<String>,
    /// The recipient's id: unambiguous.
    recipient_agent_id: Option<Uuid>,
    /// The recipient's name, when you do not have its id.
    #[schemars(length(max = 80))]
    recipient_agent_name: Option<String>,
}

/// JSON text: what waits to be posted is held as small as it came.
#[derive(Debug)]
struct Parts(String);

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(parts: D) -> std::result::Result<Parts, D::Error> {
        Value::deserialize(parts).map(|parts| Parts(parts.to_string()))
    }
}

/// The namespace of its keys: the argument's name.
const KEYS: &str = "client_message_id";

const TAKES_NO_MAIL: &str = "This recipient takes no mail from you. Its owner decides who may write to it.";

fn direct() -> String {
    "direct".into()
}

/// A stored message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// The message.
    message_id: Uuid,
    /// Its place in the recipient's mailbox.
    seq: i64,
    /// Who got it.
    recipient_agent_id: Uuid,
    /// When it was stored.
    #[serde(with = "instant")]
    #[schemars(with = "String")]
    created_at: OffsetDateTime,
    /// True: this client_message_id was sent before, and this is that message.
    deduplicated: bool,
}

impl Tool for MailboxSend {
    type Answer = Sent;
    const SPEC: Spec = Spec {
        name: "mailbox_send",
        title: "Send a message",
        access: Access::Agent,
        effect: Effect::Posting,
        hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: true },
        reach: Reach::Everywhere,
        routes: &[Route::post("/api/v1/mailbox/messages").creating()],
    };
    const REFUSES: &'static [&'static str] = &[
        "message_too_large",
        "parts_too_large",
        "not_found",
        "recipient_ambiguous",
        "idempotency_conflict",
        "mailbox_full",
        "mailbox_full_per_sender",
    ];
    const EXAMPLE: Option<&'static str> = Some(
        r#"{"recipient_agent_name":"writer","body":"Please draft the release notes.","client_message_id":"notes-1"}"#,
    );
    const ALSO_CALLED: &'static [(&'static str, &'static str)] = &[
        ("to", "recipient_agent_id"),
        ("recipient", "recipient_agent_id"),
        ("to_name", "recipient_agent_name"),
        ("text", "body"),
        ("message", "body"),
        ("content", "body"),
        ("idempotency_key", "client_message_id"),
        ("reply_to", "in_reply_to"),
        ("type", "message_type"),
    ];

    async fn run(&self, call: &mut Call<'_>) -> Result<Sent> {
        self.judge()?;
        let wanted = self.wanted()?;
        let (to, acks) = match self.addressed(call, wanted).await {
            Ok(addressed) => addressed,
            Err(refused) => {
                return retry::answered_before(call, KEYS, self.client_message_id.as_deref(), refused).await;
            }
        };
        let posting = self.posting(call, to, acks)?;
        match call.post(posting).await? {
            Verdict::Posted(posted) => {
                sent(&posted).ok_or_else(|| Error::internal("a posted letter has no place"))
            }
            Verdict::Replayed(answer) => retry::replayed(call, answer),
            Verdict::KeyReused => Err(Error::IdempotencyConflict(KEYS)),
            Verdict::NoMailbox(_) => Err(Error::NotFound("recipient")),
            Verdict::NotTaken(_) => Err(Error::Forbidden(TAKES_NO_MAIL)),
            Verdict::MailboxFull(_) => full(call, to, false).await,
            Verdict::SenderFull(_) => full(call, to, true).await,
            Verdict::NoneKnown | Verdict::Unproven(_) | Verdict::Elsewhere => {
                Err(Error::internal("a message between agents is no probe, and its posting was judged"))
            }
        }
    }
}

impl MailboxSend {
    fn judge(&self) -> Result<()> {
        rules::judge_body(&self.body)?;
        self.parts.as_ref().map_or(Ok(()), |parts| rules::judge_parts(&parts.0))?;
        rules::judge_key("client_message_id", self.client_message_id.as_deref(), 64)?;
        match self.message_type.as_str() {
            "direct" | "offer" => Ok(()),
            _ => Err(Error::invalid("message_type", "must be direct or offer")),
        }
    }

    fn wanted(&self) -> Result<Wanted<'_>> {
        match (self.recipient_agent_id, self.recipient_agent_name.as_deref()) {
            (Some(agent_id), None) => Ok(Wanted::Id(agent_id)),
            (None, Some("")) => Err(Error::invalid("recipient_agent_name", "must not be empty")),
            (None, Some(name)) => Ok(Wanted::Name(name)),
            _ => Err(Error::invalid(
                "recipient_agent_id",
                "or recipient_agent_name must name the recipient: exactly one of the two",
            )),
        }
    }

    /// The recipient, and what this answer acks.
    async fn addressed(&self, call: &mut Call<'_>, wanted: Wanted<'_>) -> Result<(Uuid, Option<Acks>)> {
        let to = recipient::find(call, wanted).await?;
        let acks = match self.in_reply_to {
            Some(message_id) => answering::acks(call, message_id, to).await?,
            None => None,
        };
        Ok((to, acks))
    }

    fn posting(&self, call: &Call<'_>, to: Uuid, acks: Option<Acks>) -> Result<Posting> {
        let sender = call.caller.agent()?;
        let letter = Letter {
            to,
            message_id: Uuid::now_v7(),
            sender: Sender::Agent { agent_id: sender.agent_id, name: sender.agent_name.clone() },
            message_type: self.message_type.clone(),
            body: self.body.clone(),
            parts: self.parts.as_ref().map(|parts| parts.0.clone()),
            thread_id: self.thread_id,
            in_reply_to: self.in_reply_to,
            ack_requested: self.ack_requested,
            ack_deadline: self.ack_deadline,
            probe_nonce: None,
            counted: true,
            heeds_policy: true,
        };
        let key = self.client_message_id.as_ref().map(|key| Key {
            agent_id: sender.agent_id,
            namespace: KEYS,
            key: key.clone(),
            fingerprint: call.fingerprint.0,
            answer: Box::new(|posted| {
                sent(posted).map_or(Value::Null, |sent| json!(Sent { deduplicated: true, ..sent }))
            }),
        });
        Ok(Posting {
            org_id: call.caller.org.org_id,
            letters: vec![letter],
            acks,
            claim: None,
            only_with_ack: false,
            key,
            trace: call.caller.trace.clone(),
        })
    }
}

fn sent(posted: &Posted) -> Option<Sent> {
    let letter = posted.delivered.first()?;
    Some(Sent {
        message_id: letter.message_id,
        seq: letter.seq,
        recipient_agent_id: letter.to,
        created_at: letter.created_at,
        deduplicated: false,
    })
}

async fn full(call: &mut Call<'_>, recipient: Uuid, per_sender: bool) -> Result<Sent> {
    let org_id = call.caller.org.org_id;
    let liveness = async { liveness_of(call.db.get().await?, org_id, recipient).await }.await;
    // The mailbox is full all the same.
    let liveness = liveness.unwrap_or(Liveness { is_unknown: true, ..Liveness::default() });
    Err(Error::MailboxFull { per_sender, liveness: Box::new(liveness) })
}
