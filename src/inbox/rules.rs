//! What happens to each posting of a batch. Pure: no clock, no database.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::posting::{Delivered, KeyOf, Letter, Mailbox, Posted, Posting, Verdict};
use crate::config::Caps;

/// What the database says about a batch, read under the locks of its mailboxes.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub boxes: HashMap<Mailbox, BoxState>,
    /// Mailboxes that exist, but somebody else holds them.
    pub held: HashSet<Mailbox>,
    /// Pairs of a mailbox and a sender it takes no mail from.
    pub closed: HashSet<(Mailbox, Uuid)>,
    pub earlier: HashMap<KeyOf, Earlier>,
    pub from_sender: HashMap<(Mailbox, Uuid), i64>,
    pub entries: HashMap<(Mailbox, Uuid), EntryState>,
    pub now: Option<OffsetDateTime>,
    /// Of the transaction that holds the mailboxes; none is needed where none is held.
    pub transaction_id: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BoxState {
    pub last_seq: i64,
    pub counted: i64,
    /// Entries not acked when it was locked.
    pub open: i64,
    /// Not everybody may write to it: who may is looked up by sender.
    pub is_guarded: bool,
    /// Its agent may have a webhook.
    pub is_hooked: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Earlier {
    pub fingerprint: Vec<u8>,
    pub answer: Value,
}

impl Earlier {
    /// What a posting with the same key gets, by its fingerprint.
    pub fn verdict(&self, fingerprint: &[u8; 32]) -> Verdict {
        match self.fingerprint == fingerprint {
            true => Verdict::Replayed(self.answer.clone()),
            false => Verdict::KeyReused,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EntryState {
    pub seq: i64,
    pub is_acked: bool,
    pub counted: bool,
    pub is_probe: bool,
    pub sender: Option<Uuid>,
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
        return earlier.verdict(&key.fingerprint);
    }
    let mailboxes = posting.mailboxes();
    let mut absent = mailboxes.iter().filter(|mailbox| !facts.boxes.contains_key(*mailbox));
    if let Some(missing) = absent.clone().find(|mailbox| !facts.held.contains(*mailbox)) {
        return Verdict::NoMailbox(missing.1);
    }
    if absent.next().is_some() {
        return Verdict::Elsewhere;
    }
    let mut posted = match settle(posting, facts) {
        Ok(posted) => posted,
        Err(refused) => return refused,
    };
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

/// Which entries this posting acks, and which had been acked before. Refused are acks of nothing, and those of a
/// probe without its proof.
fn settle(posting: &Posting, facts: &Facts) -> Result<Posted, Verdict> {
    let mut posted = Posted::default();
    let Some(acks) = &posting.acks else { return Ok(posted) };
    let mailbox = (posting.org_id, acks.agent_id);
    let mut known: Vec<(Uuid, EntryState)> = (acks.message_ids.iter())
        .filter_map(|id| Some((*id, *facts.entries.get(&(mailbox, *id))?)))
        .collect();
    if acks.needs_any && known.is_empty() {
        return Err(Verdict::NoneKnown);
    }
    known.sort_unstable_by_key(|(_, entry)| entry.seq);
    for (id, entry) in known {
        match entry.is_acked {
            true => posted.already_acked.push(id),
            false if entry.is_probe && !acks.proven.contains(&id) => return Err(Verdict::Unproven(id)),
            false => posted.acked.push(id),
        }
    }
    Ok(posted)
}

/// The policy or the cap that keeps a letter out, if one does. Acks of the same posting have made
/// no room yet: a reply is not counted, and nothing else comes with an ack.
fn refuse(org_id: Uuid, letter: &Letter, facts: &Facts, caps: Caps) -> Option<Verdict> {
    let mailbox = (org_id, letter.to);
    let over = |count: i64, cap: u32| cap > 0 && count >= i64::from(cap);
    let is_closed = |sender| facts.closed.contains(&(mailbox, sender));
    if letter.heeds_policy && letter.sender.agent_id().is_some_and(is_closed) {
        return Some(Verdict::NotTaken(letter.to));
    }
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
            if let Some(sender) = entry.sender {
                facts.from_sender.entry((mailbox, sender)).and_modify(|count| *count -= freed);
            }
        }
    }
    if let (Some(key), Some(key_of)) = (&posting.key, posting.key_of()) {
        let earlier = Earlier { fingerprint: key.fingerprint.to_vec(), answer: (key.answer)(&posted) };
        facts.earlier.insert(key_of, earlier);
    }
    Verdict::Posted(posted)
}
