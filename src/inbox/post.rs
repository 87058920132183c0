//! The one way into mailboxes: lock, look, judge in Rust, write.
//!
//! The lock is a statement of its own, so that every later statement reads a
//! snapshot newer than the lock: order, caps and duplicates are exact. One order of
//! locks everywhere: mailboxes, then keys, then entries, then runs.

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use super::look::{count_senders, find_earlier, find_entries, keys, lock};
use super::rules::{Facts, KeyOf, judge};
use super::write::{settle, write};
use super::{Posting, Verdict};
use crate::call::{Caps, Result};

/// Stores what may be stored of a batch, in the caller's transaction; the verdicts
/// stand in the postings' order. A refused posting leaves nothing behind.
pub async fn post(db: &mut PgConnection, caps: Caps, postings: &[Posting]) -> Result<Vec<Verdict>> {
    let mut facts = Facts::default();
    lock(db, postings, &mut facts).await?;
    find_earlier(db, keys(postings), &mut facts).await?;
    count_senders(db, postings, caps, &mut facts).await?;
    find_entries(db, postings, &mut facts).await?;
    let mut verdicts = judge(postings, &mut facts, caps);
    let lost = write(db, postings, &verdicts).await?;
    if !lost.is_empty() {
        judge_lost(db, postings, &mut verdicts, &lost).await?;
    }
    settle(db, postings, &verdicts, facts.now).await?;
    Ok(verdicts)
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
    let earlier = facts.earlier.into_values().next();
    Ok(earlier.map(|earlier| match earlier.fingerprint == fingerprint {
        true => Verdict::Replayed(earlier.answer),
        false => Verdict::KeyReused,
    }))
}

/// Judges again those whose key was taken: the taker has committed, so its answer stands.
/// Others of this batch with the same key were judged by an answer that never came to be.
async fn judge_lost(
    db: &mut PgConnection,
    postings: &[Posting],
    verdicts: &mut [Verdict],
    lost: &HashSet<i32>,
) -> Result<()> {
    let taken: Vec<KeyOf> = lost.iter().filter_map(|place| postings[*place as usize].key_of()).collect();
    let mut facts = Facts::default();
    find_earlier(db, taken, &mut facts).await?;
    for (posting, verdict) in postings.iter().zip(verdicts) {
        let (Some(key), Some(key_of)) = (&posting.key, posting.key_of()) else { continue };
        let Some(earlier) = facts.earlier.get(&key_of) else { continue };
        *verdict = match earlier.fingerprint == key.fingerprint {
            true => Verdict::Replayed(earlier.answer.clone()),
            false => Verdict::KeyReused,
        };
    }
    Ok(())
}
