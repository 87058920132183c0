//! What happens to each posting of a batch. Pure: no clock, no database.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::call::Caps;

/// What one call puts into mailboxes and takes off them: all of it or nothing.
#[derive(Debug)]
pub struct Posting {
    /// The organization of everything in it.
    pub org_id: Uuid,
    /// Messages to deliver.
    pub letters: Vec<Letter>,
    /// Entries to settle.
    pub acks: Option<Acks>,
    /// Deliver the letters only if at least one entry is newly acked.
    pub only_with_ack: bool,
    /// What makes a retry safe.
    pub key: Option<Key>,
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
    /// A2A parts: a list of objects.
    pub parts: Option<Value>,
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
    /// The mailbox is at its cap.
    MailboxFull(Uuid),
    /// This sender is at its cap in that mailbox.
    SenderFull(Uuid),
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

/// A mailbox: its organization and agent.
pub(super) type Mailbox = (Uuid, Uuid);
/// A key: organization, agent, namespace, text.
pub(super) type KeyOf = (Uuid, Uuid, String, String);

/// What the database says about a batch, read under the locks of its mailboxes.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub boxes: HashMap<Mailbox, BoxState>,
    pub earlier: HashMap<KeyOf, Earlier>,
    pub from_sender: HashMap<(Mailbox, Uuid), i64>,
    pub entries: HashMap<(Mailbox, Uuid), EntryState>,
    pub now: Option<OffsetDateTime>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BoxState {
    pub last_seq: i64,
    pub counted: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Earlier {
    pub fingerprint: Vec<u8>,
    pub answer: Value,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EntryState {
    pub seq: i64,
    pub is_acked: bool,
    pub counted: bool,
}

impl Posting {
    /// The mailboxes it touches, sorted: the order in which they are locked.
    pub(super) fn mailboxes(&self) -> Vec<Mailbox> {
        let letters = self.letters.iter().map(|letter| letter.to);
        let mut agents: Vec<Uuid> = letters.chain(self.acks.iter().map(|acks| acks.agent_id)).collect();
        agents.sort_unstable();
        agents.dedup();
        agents.into_iter().map(|agent_id| (self.org_id, agent_id)).collect()
    }

    pub(super) fn key_of(&self) -> Option<KeyOf> {
        let key = self.key.as_ref()?;
        Some((self.org_id, key.agent_id, key.namespace.to_owned(), key.key.clone()))
    }
}

/// Judges the postings in order and moves `facts` along, so that the second
/// posting of a batch sees the first.
pub(super) fn judge(postings: &[Posting], facts: &mut Facts, caps: Caps) -> Vec<Verdict> {
    postings.iter().map(|posting| judge_one(posting, facts, caps)).collect()
}

fn judge_one(posting: &Posting, facts: &mut Facts, caps: Caps) -> Verdict {
    if let (Some(key), Some(key_of)) = (&posting.key, posting.key_of())
        && let Some(earlier) = facts.earlier.get(&key_of)
    {
        return match earlier.fingerprint == key.fingerprint {
            true => Verdict::Replayed(earlier.answer.clone()),
            false => Verdict::KeyReused,
        };
    }
    if let Some((_, missing)) =
        posting.mailboxes().into_iter().find(|mailbox| !facts.boxes.contains_key(mailbox))
    {
        return Verdict::NoMailbox(missing);
    }
    let mut posted = settle(posting, facts);
    if posting.only_with_ack && posted.acked.is_empty() {
        return keep(posting, facts, posted);
    }
    if let Some(refused) =
        posting.letters.iter().find_map(|letter| refuse(posting.org_id, letter, facts, caps))
    {
        return refused;
    }
    posted.delivered = posting.letters.iter().map(|letter| deliver(posting.org_id, letter, facts)).collect();
    keep(posting, facts, posted)
}

/// Which entries this posting acks, and which had been acked before.
fn settle(posting: &Posting, facts: &mut Facts) -> Posted {
    let mut posted = Posted::default();
    let Some(acks) = &posting.acks else { return posted };
    let mailbox = (posting.org_id, acks.agent_id);
    let mut known: Vec<(Uuid, EntryState)> = (acks.message_ids.iter())
        .filter_map(|id| Some((*id, *facts.entries.get(&(mailbox, *id))?)))
        .collect();
    known.sort_unstable_by_key(|(_, entry)| entry.seq);
    for (id, entry) in known {
        match entry.is_acked {
            true => posted.already_acked.push(id),
            false => posted.acked.push(id),
        }
    }
    posted
}

/// The cap that keeps a letter out, if one does. Acks of the same posting have made
/// no room yet: a reply is not counted, and nothing else comes with an ack.
fn refuse(org_id: Uuid, letter: &Letter, facts: &Facts, caps: Caps) -> Option<Verdict> {
    let mailbox = (org_id, letter.to);
    let over = |count: i64, cap: u32| cap > 0 && count >= i64::from(cap);
    if !letter.counted {
        return None;
    }
    if over(facts.boxes.get(&mailbox)?.counted, caps.mailbox) {
        return Some(Verdict::MailboxFull(letter.to));
    }
    let from_sender = facts.from_sender.get(&(mailbox, letter.sender.agent_id()?)).copied().unwrap_or(0);
    over(from_sender, caps.sender).then_some(Verdict::SenderFull(letter.to))
}

fn deliver(org_id: Uuid, letter: &Letter, facts: &mut Facts) -> Delivered {
    let mailbox = (org_id, letter.to);
    let mut seq = 0;
    if let Some(state) = facts.boxes.get_mut(&mailbox) {
        state.last_seq += 1;
        state.counted += i64::from(letter.counted);
        seq = state.last_seq;
    }
    if let (true, Some(sender)) = (letter.counted, letter.sender.agent_id()) {
        *facts.from_sender.entry((mailbox, sender)).or_default() += 1;
    }
    let created_at = facts.now.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    Delivered { to: letter.to, message_id: letter.message_id, seq, created_at }
}

/// Moves the facts along for the postings behind this one.
fn keep(posting: &Posting, facts: &mut Facts, posted: Posted) -> Verdict {
    if let Some(acks) = &posting.acks {
        let mailbox = (posting.org_id, acks.agent_id);
        for id in &posted.acked {
            let Some(entry) = facts.entries.get_mut(&(mailbox, *id)) else { continue };
            entry.is_acked = true;
            let freed = i64::from(entry.counted);
            facts.boxes.entry(mailbox).and_modify(|state| state.counted -= freed);
        }
    }
    if let (Some(key), Some(key_of)) = (&posting.key, posting.key_of()) {
        let earlier = Earlier { fingerprint: key.fingerprint.to_vec(), answer: (key.answer)(&posted) };
        facts.earlier.insert(key_of, earlier);
    }
    Verdict::Posted(posted)
}
