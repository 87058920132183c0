//! The one way into mailboxes, and to what is in them: lock, look, judge in Rust, write. Batches come from the
//! poster.
//!
//! The lock is a statement of its own, so that every later statement reads a
//! snapshot newer than the lock: order, caps, duplicates and leases are exact. One order of
//! locks everywhere: mailboxes sorted, then keys sorted, then webhooks, then agents. Entries
//! and runs change under the lock of their mailbox alone. Who cannot keep the order skips
//! what is locked.

use sqlx::PgConnection;
use uuid::Uuid;

use super::claims::serve;
use super::hooks::make_due;
use super::look::{count_senders, find_closed, find_earlier, find_entries, lock};
use super::posting::{Care, Judged, KeyOf, Patience, Posting, Verdict};
use super::rules::{Facts, judge};
use super::settle::{settle, verify};
use super::write::Stored;
use crate::config::Caps;
use crate::error::{Error, Result};

/// Stores what may be stored of a batch, in the caller's transaction. A refused posting leaves
/// nothing behind.
///
/// Earlier keys are looked up only where they matter: where a posting would be refused, since a retry is answered
/// all the same, and where `care` says so. Otherwise it is the write that finds a key taken.
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
    let stored = Stored::of(postings, &verdicts);
    match stored.write(db).await {
        Err(error) if is_key_taken(&error) => return Ok(Judged::KeyTaken),
        written => written?,
    }
    let hook_is_due = make_due(db, &stored, &facts).await?;
    if !care.looks_up_keys {
        judge_again(db, postings, &mut verdicts).await?;
    }
    settle(db, postings, &verdicts, facts.now).await?;
    serve(db, postings, &mut verdicts, &facts).await?;
    verify(db, postings, &verdicts).await?;
    Ok(Judged::Verdicts { verdicts, hook_is_due, transaction_id: facts.transaction_id })
}

/// One posting in a transaction that does more: of a new agent, whose mailbox nobody else can see yet.
pub async fn post_alone(db: &mut PgConnection, caps: Caps, posting: Posting) -> Result<Verdict> {
    let care = Care { patience: Patience::Wait, looks_up_keys: false };
    match post(db, caps, &[posting], care).await? {
        Judged::Verdicts { mut verdicts, .. } => {
            verdicts.pop().ok_or_else(|| Error::internal("a posting without a verdict"))
        }
        Judged::KeyTaken => Err(Error::internal("a new agent has used no key")),
    }
}

fn is_key_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|refused| refused.constraint() == Some("idempotency_pkey"))
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

/// Judges those that were refused again by their keys: a retry gets the answer that stands.
async fn judge_again(db: &mut PgConnection, postings: &[Posting], verdicts: &mut [Verdict]) -> Result<()> {
    let pairs = postings.iter().zip(verdicts.iter());
    let refused: Vec<KeyOf> = pairs
        .filter(|(_, verdict)| verdict.is_refusal())
        .filter_map(|(posting, _)| posting.key_of())
        .collect();
    let mut facts = Facts::default();
    find_earlier(db, refused, &mut facts).await?;
    for (posting, verdict) in postings.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_refusal()) {
        let (Some(key), Some(key_of)) = (&posting.key, posting.key_of()) else { continue };
        if let Some(earlier) = facts.earlier.get(&key_of) {
            *verdict = earlier.verdict(&key.fingerprint);
        }
    }
    Ok(())
}
