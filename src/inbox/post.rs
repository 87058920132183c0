//! The one way into mailboxes, and to what is in them: lock, look, judge in Rust, write. Batches come from the
//! poster.
//!
//! The lock is a statement of its own, so that every later statement reads a
//! snapshot newer than the lock: order, caps, duplicates and leases are exact. One order of
//! locks everywhere: mailboxes sorted, then keys sorted, then agents. Entries and runs
//! change under the lock of their mailbox alone. Who cannot keep the order skips what is
//! locked.

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use super::claims::serve;
use super::look::{count_senders, find_closed, find_earlier, find_entries, lock};
use super::posting::{Care, Judged, KeyOf, Patience, Posting, Verdict};
use super::rules::{Facts, judge};
use super::write::{settle, verify, write};
use crate::config::Caps;
use crate::error::{Error, Result};

/// Stores what may be stored of a batch, in the caller's transaction. A refused posting leaves
/// nothing behind.
///
/// Earlier keys are looked up only where they matter: where the write finds a key taken, and where a
/// posting would be refused, since a retry is answered all the same; before everything else when
/// `care` says so.
pub async fn post(db: &mut PgConnection, caps: Caps, postings: &[Posting], care: Care) -> Result<Judged> {
    let mut facts = Facts::default();
    lock(db, postings, care.patience, &mut facts).await?;
    if care.looks_up_keys {
        find_earlier(db, postings.iter().filter_map(Posting::key_of).collect(), &mut facts).await?;
    }
    find_closed(db, postings, &mut facts).await?;
    count_senders(db, postings, caps, &mut facts).await?;
    find_entries(db, postings, &mut facts).await?;
    let mut verdicts = judge(postings, &mut facts, caps);
    let (lost, hook_is_due) = write(db, postings, &verdicts).await?;
    if leads_others_astray(postings, &lost) {
        return Ok(Judged::Astray);
    }
    judge_again(db, postings, &mut verdicts, &lost).await?;
    settle(db, postings, &verdicts, facts.now).await?;
    serve(db, postings, &mut verdicts, &facts).await?;
    verify(db, postings, &verdicts).await?;
    Ok(Judged::Verdicts { verdicts, hook_is_due })
}

/// One posting in a transaction that does more: of a new agent, whose mailbox nobody else can see yet.
pub async fn post_alone(db: &mut PgConnection, caps: Caps, posting: Posting) -> Result<Verdict> {
    let care = Care { patience: Patience::Wait, looks_up_keys: false };
    match post(db, caps, &[posting], care).await? {
        Judged::Verdicts { mut verdicts, .. } => {
            verdicts.pop().ok_or_else(|| Error::internal("a posting without a verdict"))
        }
        Judged::Astray => Err(Error::internal("a posting alone leads nobody astray")),
    }
}

/// Whether a posting whose key turned out taken has moved the facts for one behind it: that one was
/// judged as if the first were stored.
fn leads_others_astray(postings: &[Posting], lost: &HashSet<i32>) -> bool {
    let mut touched = HashSet::new();
    for (place, posting) in postings.iter().enumerate() {
        let mailboxes = posting.mailboxes();
        if mailboxes.iter().any(|mailbox| touched.contains(mailbox)) {
            return true;
        }
        if lost.contains(&(place as i32)) {
            touched.extend(mailboxes);
        }
    }
    false
}

/// What a retry with this key gets, if it was used before: `Replayed` or `KeyReused`.
pub async fn answer_of(
    db: &mut PgConnection,
    org_id: Uuid,
    agent_id: Uuid,
    namespace: &'static str,
    key: &str,
    fingerprint: [u8; 32],
) -> Result<Option<Verdict>> {
    let mut facts = Facts::default();
    find_earlier(db, vec![(org_id, agent_id, namespace.to_owned(), key.to_owned())], &mut facts).await?;
    Ok(facts.earlier.into_values().next().map(|earlier| earlier.verdict(&fingerprint)))
}

/// Judges again by their keys those who lost theirs or were refused: whoever took a key has
/// committed, so its answer stands. Others of this batch with the same key were judged by an
/// answer that never came to be.
async fn judge_again(
    db: &mut PgConnection,
    postings: &[Posting],
    verdicts: &mut [Verdict],
    lost: &HashSet<i32>,
) -> Result<()> {
    let pairs = postings.iter().zip(verdicts.iter()).enumerate();
    let doubtful: Vec<KeyOf> = pairs
        .filter(|(place, (_, verdict))| lost.contains(&(*place as i32)) || verdict.is_refusal())
        .filter_map(|(_, (posting, _))| posting.key_of())
        .collect();
    let mut facts = Facts::default();
    find_earlier(db, doubtful, &mut facts).await?;
    for (place, (posting, verdict)) in postings.iter().zip(verdicts).enumerate() {
        let (Some(key), Some(key_of)) = (&posting.key, posting.key_of()) else { continue };
        match facts.earlier.get(&key_of) {
            Some(earlier) => *verdict = earlier.verdict(&key.fingerprint),
            // Taken when we wrote and gone when we looked: a chore has just forgotten it.
            None if lost.contains(&(place as i32)) => {
                return Err(Error::unavailable("a key was forgotten meanwhile"));
            }
            None => {}
        }
    }
    Ok(())
}
