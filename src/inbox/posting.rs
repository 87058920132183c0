//! What goes into mailboxes and what becomes of it.

use std::fmt;

use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::claims::{Claim, Leased};
use crate::trace::Trace;

/// A mailbox: its organization and agent.
pub type Mailbox = (Uuid, Uuid);
/// A key: organization, agent, namespace, text.
pub(super) type KeyOf = (Uuid, Uuid, String, String);

/// What one call puts into mailboxes and takes off them: all of it or nothing.
#[derive(Debug)]
pub struct Posting {
    /// The organization of everything in it.
    pub org_id: Uuid,
    /// Messages to deliver.
    pub letters: Vec<Letter>,
    /// Entries to settle.
    pub acks: Option<Acks>,
    /// Free messages to lease.
    pub claim: Option<Claim>,
    /// Deliver the letters only if at least one entry is newly acked.
    pub only_with_ack: bool,
    /// What makes a retry safe.
    pub key: Option<Key>,
    /// The trace that its letters are part of.
    pub trace: Option<Trace>,
}

/// A message on its way to one mailbox.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Whose mailbox.
    pub to: Uuid,
    /// The message's id.
    pub message_id: Uuid,
    /// Who wrote it.
    pub sender: Sender,
    /// `direct`, `offer`, `agent_reply`, `system` …
    pub message_type: String,
    /// The text.
    pub body: String,
    /// A2A parts: JSON text of a list of objects. As text, since read it takes fifty times the memory.
    pub parts: Option<String>,
    /// The conversation it belongs to.
    pub thread_id: Option<Uuid>,
    /// The message it answers.
    pub in_reply_to: Option<Uuid>,
    /// Whether its sender asks for an ack.
    pub ack_requested: bool,
    /// Until when the sender waits for it.
    pub ack_deadline: Option<OffsetDateTime>,
    /// Set on probes: what the ack must prove.
    pub probe_nonce: Option<String>,
    /// Whether it counts against the caps, and is refused by them.
    pub counted: bool,
    /// Whether it is refused where the recipient takes no mail from its sender.
    pub heeds_policy: bool,
}

impl Letter {
    /// A notice of this service: it counts against no cap, and nobody refuses it.
    pub fn notice(to: Uuid, body: impl Into<String>) -> Letter {
        Letter {
            to,
            message_id: Uuid::now_v7(),
            sender: Sender::System,
            message_type: "system".into(),
            body: body.into(),
            parts: None,
            thread_id: None,
            in_reply_to: None,
            ack_requested: false,
            ack_deadline: None,
            probe_nonce: None,
            counted: false,
            heeds_policy: false,
        }
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// A peer.
    Agent {
        /// Its id.
        agent_id: Uuid,
        /// Its name when it wrote.
        name: String,
    },
    /// This service.
    System,
}

impl Sender {
    /// The peer's id; `None` for this service.
    pub fn agent_id(&self) -> Option<Uuid> {
        match self {
            Sender::Agent { agent_id, .. } => Some(*agent_id),
            Sender::System => None,
        }
    }

    /// The name shown beside the message.
    pub fn name(&self) -> &str {
        match self {
            Sender::Agent { name, .. } => name,
            Sender::System => "Waypost",
        }
    }
}

/// Entries of one mailbox to settle for good.
#[derive(Debug, Clone)]
pub struct Acks {
    /// Whose mailbox.
    pub agent_id: Uuid,
    /// Ids of messages; distinct.
    pub message_ids: Vec<Uuid>,
    /// Kept with each entry.
    pub ack_body: Option<Value>,
    /// Probes among them whose proof was judged right: acking one verifies the agent. Another one refuses the posting.
    pub proven: Vec<Uuid>,
    /// Whether the posting is refused when the mailbox holds none of them.
    pub needs_any: bool,
}

/// What tells a retry from a new action.
pub struct Key {
    /// Whose key.
    pub agent_id: Uuid,
    /// What kind of key: the same text in another namespace is another key.
    pub namespace: &'static str,
    /// The caller's text.
    pub key: String,
    /// What the arguments hash to.
    pub fingerprint: [u8; 32],
    /// The answer that retries get.
    pub answer: Box<dyn Fn(&Posted) -> Value + Send + Sync>,
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Key").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// What became of a posting.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Stored.
    Posted(Posted),
    /// An earlier posting with this key and content: its answer.
    Replayed(Value),
    /// The key was used before with other content.
    KeyReused,
    /// No such mailbox.
    NoMailbox(Uuid),
    /// The recipient takes no mail from this sender.
    NotTaken(Uuid),
    /// The mailbox is at its cap.
    MailboxFull(Uuid),
    /// This sender is at its cap in that mailbox.
    SenderFull(Uuid),
    /// The mailbox holds none of the messages to settle.
    NoneKnown,
    /// A message to settle is a probe, and nobody proved that it was read.
    Unproven(Uuid),
    /// Not judged: somebody else holds one of its mailboxes. Only when asked not to wait.
    Elsewhere,
}

impl Verdict {
    /// Whether the mailboxes kept it out.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Verdict::NoMailbox(_)
            | Verdict::NotTaken(_)
            | Verdict::MailboxFull(_)
            | Verdict::SenderFull(_)
            | Verdict::NoneKnown
            | Verdict::Unproven(_) => true,
            Verdict::Posted(_) | Verdict::Replayed(_) | Verdict::KeyReused | Verdict::Elsewhere => false,
        }
    }

    /// Whether its key had been used before.
    pub(super) fn is_of_retry(&self) -> bool {
        matches!(self, Verdict::Replayed(_) | Verdict::KeyReused)
    }
}

/// What was stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Posted {
    /// The letters, in the posting's order.
    pub delivered: Vec<Delivered>,
    /// Entries acked by this posting, by seq.
    pub acked: Vec<Uuid>,
    /// Entries of the posting that had been acked before.
    pub already_acked: Vec<Uuid>,
    /// What a claim got.
    pub leased: Option<Leased>,
}

/// A letter in its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Whose mailbox.
    pub to: Uuid,
    /// The message.
    pub message_id: Uuid,
    /// Its place.
    pub seq: i64,
    /// When, by the database's clock, to the millisecond.
    pub created_at: OffsetDateTime,
}

/// How a batch is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Care {
    /// What to do about mailboxes that somebody else holds.
    pub patience: Patience,
    /// Whether earlier keys are looked up before anything is judged, which a batch without retries need not pay for.
    pub looks_up_keys: bool,
}

/// What became of a batch.
#[derive(Debug)]
pub enum Judged {
    /// What stands, once it is committed.
    Verdicts {
        /// In the postings' order.
        verdicts: Vec<Verdict>,
        /// Whether a webhook became due.
        hook_is_due: bool,
        /// Postgres' id of the transaction; `None` when nothing was locked, and so nothing written.
        transaction_id: Option<String>,
    },
    /// A key turned out taken, and the transaction must be undone: the batch is to be carried out again
    /// with its keys looked up.
    KeyTaken,
}

/// What to do about a mailbox that somebody else holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Leave out what touches it.
    Skip,
    /// Wait for it.
    Wait,
}

impl Posting {
    /// The mailbox in whose turn it is posted: where it acks or claims, or its first letter goes.
    pub(super) fn home(&self) -> Uuid {
        self.own().next().or(self.letters.first().map(|letter| letter.to)).unwrap_or_default()
    }

    /// Whose mailbox it takes from.
    fn own(&self) -> impl Iterator<Item = Uuid> {
        let acks = self.acks.iter().map(|acks| acks.agent_id);
        acks.chain(self.claim.iter().map(|claim| claim.agent_id))
    }

    /// The mailboxes it touches, sorted: the order in which they are locked.
    pub(super) fn mailboxes(&self) -> Vec<Mailbox> {
        let letters = self.letters.iter().map(|letter| letter.to);
        let mut agents: Vec<Uuid> = letters.chain(self.own()).collect();
        agents.sort_unstable();
        agents.dedup();
        agents.into_iter().map(|agent_id| (self.org_id, agent_id)).collect()
    }

    /// How much work it is, in letters and acks. A claim is as much as some of them.
    pub(super) fn weight(&self) -> usize {
        const CLAIM: usize = 4;
        let acks = self.acks.as_ref().map_or(0, |acks| acks.message_ids.len());
        self.letters.len() + acks + self.claim.as_ref().map_or(0, |_| CLAIM)
    }

    /// Whether this verdict stores anything.
    pub(super) fn is_stored_by(&self, verdict: &Verdict) -> bool {
        let Verdict::Posted(posted) = verdict else { return false };
        let leases = posted.leased.as_ref().is_some_and(|leased| leased.is_new);
        leases || self.key.is_some() || !posted.delivered.is_empty() || !posted.acked.is_empty()
    }

    pub(super) fn key_of(&self) -> Option<KeyOf> {
        let key = self.key.as_ref()?;
        Some((self.org_id, key.agent_id, key.namespace.to_owned(), key.key.clone()))
    }
}
