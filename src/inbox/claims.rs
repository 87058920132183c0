//! Claims: free messages leased to runs, for all claims of a batch together.
//!
//! They come last in their batch: they see what it delivered, and nothing that it acked. The lock of
//! the mailbox is all they need, since entries and runs change under it alone.

mod find;
mod lease;

use std::collections::HashSet;
use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use self::find::{Found, Shelf, find_free, find_held};
use self::lease::{Lease, lease};
use super::message::{Message, State};
use super::posting::{Mailbox, Posting, Verdict};
use super::rules::Facts;
use crate::error::Result;
use crate::page;

/// Messages of one mailbox to lease to one run.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Whose mailbox.
    pub agent_id: Uuid,
    /// Who works on them: a run under a live lease gets what it holds.
    pub run_id: Uuid,
    /// Most messages.
    pub limit: usize,
    /// Only these, if they are given; distinct.
    pub message_ids: Option<Vec<Uuid>>,
    /// How long the lease lives.
    pub lease: Duration,
    /// Bytes kept on the answer's page for what it holds beside the messages: what does not fit is not leased.
    pub frame: usize,
}

/// What a run holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Leased {
    /// Oldest first; nothing when nothing was free.
    pub messages: Vec<Message>,
    /// Messages of the mailbox that are under no live lease then.
    pub remaining: i64,
    /// Leased just now; else the run held them before.
    pub is_new: bool,
}

/// A claim of the batch, and the place of its posting.
#[derive(Clone, Copy)]
struct Asked<'a> {
    place: usize,
    mailbox: Mailbox,
    claim: &'a Claim,
}

/// Serves the claims of a batch, and tells their verdicts what they got. Nothing is asked of a mailbox that is empty.
pub(super) async fn serve(
    db: &mut PgConnection,
    postings: &[Posting],
    verdicts: &mut [Verdict],
    facts: &Facts,
) -> Result<()> {
    let asked = asked(postings, verdicts);
    let filled = filled(postings, verdicts, facts);
    let able: Vec<Asked<'_>> =
        asked.iter().copied().filter(|asked| filled.contains(&asked.mailbox)).collect();
    let mut found = find_free(db, &able).await?;
    find_held(db, &able, &mut found).await?;
    let mut leases = Vec::new();
    for asked in asked {
        let leased = found.serve(asked, &mut leases)?;
        if let Some(Verdict::Posted(posted)) = verdicts.get_mut(asked.place) {
            posted.leased = Some(leased);
        }
    }
    lease(db, &leases, found.now).await
}

fn asked<'a>(postings: &'a [Posting], verdicts: &[Verdict]) -> Vec<Asked<'a>> {
    let pairs = postings.iter().zip(verdicts).enumerate();
    pairs
        .filter(|(_, (_, verdict))| matches!(verdict, Verdict::Posted(_)))
        .filter_map(|(place, (posting, _))| {
            let claim = posting.claim.as_ref()?;
            Some(Asked { place, mailbox: (posting.org_id, claim.agent_id), claim })
        })
        .collect()
}

/// Mailboxes that may hold something: that did when they were locked, or that this batch delivered to.
fn filled(postings: &[Posting], verdicts: &[Verdict], facts: &Facts) -> HashSet<Mailbox> {
    let mut filled: HashSet<Mailbox> =
        facts.boxes.iter().filter(|(_, state)| state.open > 0).map(|(mailbox, _)| *mailbox).collect();
    for (posting, verdict) in postings.iter().zip(verdicts) {
        let Verdict::Posted(posted) = verdict else { continue };
        filled.extend(posted.delivered.iter().map(|letter| (posting.org_id, letter.to)));
    }
    filled
}

impl Found {
    /// What a claim gets. What it leases is on no shelf any more for the claims behind it.
    fn serve(&mut self, asked: Asked<'_>, leases: &mut Vec<Lease>) -> Result<Leased> {
        let (Some(now), Some(shelf)) = (self.now, self.shelves.get_mut(&asked.mailbox)) else {
            return Ok(Leased::default());
        };
        let run_id = asked.claim.run_id;
        if let Some(messages) = shelf.held.get(&run_id) {
            return Ok(Leased { messages: messages.clone(), remaining: shelf.pending, is_new: false });
        }
        let until = now + asked.claim.lease;
        let messages = shelf.take(asked.claim, until)?;
        if messages.is_empty() {
            return Ok(Leased { messages, remaining: shelf.pending, is_new: false });
        }
        shelf.pending = (shelf.pending - messages.len() as i64).max(0);
        shelf.held.insert(run_id, messages.clone());
        let seqs = messages.iter().map(|message| message.seq).collect();
        leases.push(Lease { mailbox: asked.mailbox, run_id, until, seqs });
        Ok(Leased { messages, remaining: shelf.pending, is_new: true })
    }
}

impl Shelf {
    /// The oldest that this claim may have and that fit on its page.
    fn take(&mut self, claim: &Claim, until: OffsetDateTime) -> Result<Vec<Message>> {
        let only: Option<HashSet<&Uuid>> = claim.message_ids.as_ref().map(|ids| ids.iter().collect());
        let may_have = |message: &&Message| match &only {
            Some(only) => only.contains(&message.id),
            None => message.seq <= self.oldest_until,
        };
        let mut messages: Vec<Message> =
            self.free.values().filter(may_have).take(claim.limit).cloned().collect();
        // Measured as they will be shown: a lease adds its end to each.
        show_leased(&mut messages, until);
        messages.truncate(page::fitting(&messages, claim.frame)?);
        for message in &messages {
            self.free.remove(&message.seq);
        }
        Ok(messages)
    }
}

fn show_leased(messages: &mut [Message], until: OffsetDateTime) {
    for message in messages {
        message.state = State::Claimed;
        message.lease_expires_at = Some(until);
    }
}
