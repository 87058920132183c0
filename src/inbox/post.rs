//! The one way into mailboxes: lock, look, judge in Rust, write.
//!
//! The lock is a statement of its own, so that every later statement reads a
//! snapshot newer than the lock: order, caps and duplicates are exact. One order of
//! locks everywhere: mailboxes, then keys, then entries, then runs.

use std::collections::HashSet;

use serde_json::Value;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{BoxState, Delivered, Earlier, EntryState, Facts, KeyOf, Letter, Mailbox, judge};
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

/// Locks the mailboxes of all postings, in order, and reads their state.
async fn lock(db: &mut PgConnection, postings: &[Posting], facts: &mut Facts) -> Result<()> {
    let mut mailboxes: Vec<Mailbox> = postings.iter().flat_map(Posting::mailboxes).collect();
    mailboxes.sort_unstable();
    mailboxes.dedup();
    let (orgs, agents): (Vec<Uuid>, Vec<Uuid>) = mailboxes.into_iter().unzip();
    let rows = sqlx::query(
        "-- inbox.lock
         select m.org_id, m.agent_id, m.last_seq, m.counted, date_trunc('milliseconds', clock_timestamp())
         from mailbox m
         where (m.org_id, m.agent_id) in (select * from unnest($1::uuid[], $2::uuid[]))
         order by m.org_id, m.agent_id for no key update",
    )
    .bind(orgs)
    .bind(agents)
    .fetch_all(db)
    .await?;
    for row in rows {
        let state = BoxState { last_seq: row.try_get(2)?, counted: row.try_get::<i32, _>(3)?.into() };
        facts.boxes.insert((row.try_get(0)?, row.try_get(1)?), state);
        facts.now = facts.now.max(Some(row.try_get(4)?));
    }
    Ok(())
}

fn keys(postings: &[Posting]) -> Vec<KeyOf> {
    postings.iter().filter_map(Posting::key_of).collect()
}

/// Finds what earlier postings with these keys answered.
async fn find_earlier(db: &mut PgConnection, keys: Vec<KeyOf>, facts: &mut Facts) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "-- inbox.find_earlier
         select i.org_id, i.agent_id, i.namespace, i.key, i.fingerprint, i.answer
         from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) as k(org_id, agent_id, namespace, key)
         join idempotency i using (org_id, agent_id, namespace, key)",
    )
    .bind(keys.iter().map(|key| key.0).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.1).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.2.as_str()).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.3.as_str()).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    for row in rows {
        let key = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        let Json(answer) = row.try_get(5)?;
        facts.earlier.insert(key, Earlier { fingerprint: row.try_get(4)?, answer });
    }
    Ok(())
}

/// Counts only where the sender's cap could bite: in a mailbox with fewer counted
/// entries than that, no single sender can have reached it.
async fn count_senders(
    db: &mut PgConnection,
    postings: &[Posting],
    caps: Caps,
    facts: &mut Facts,
) -> Result<()> {
    let crowded = crowded(postings, caps, facts);
    if crowded.is_empty() {
        return Ok(());
    }
    let counts: Vec<i64> = sqlx::query_scalar(
        "-- inbox.count_senders
         select (select count(*) from inbox_entry e
                 where e.org_id = p.org_id and e.agent_id = p.agent_id and e.sender_agent_id = p.sender
                   and e.counted and e.acked_at is null)
         from unnest($1::uuid[], $2::uuid[], $3::uuid[]) with ordinality as p(org_id, agent_id, sender, place)
         order by p.place",
    )
    .bind(crowded.iter().map(|pair| pair.0.0).collect::<Vec<_>>())
    .bind(crowded.iter().map(|pair| pair.0.1).collect::<Vec<_>>())
    .bind(crowded.iter().map(|pair| pair.1).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    facts.from_sender.extend(crowded.into_iter().zip(counts));
    Ok(())
}

/// Pairs of mailbox and sender whose cap this batch could reach.
fn crowded(postings: &[Posting], caps: Caps, facts: &Facts) -> Vec<(Mailbox, Uuid)> {
    if caps.sender == 0 {
        return Vec::new();
    }
    let letters =
        postings.iter().flat_map(|posting| posting.letters.iter().map(|letter| (posting.org_id, letter)));
    let mut coming: Vec<(Mailbox, Uuid)> = letters
        .filter(|(_, letter)| letter.counted)
        .filter_map(|(org_id, letter)| Some(((org_id, letter.to), letter.sender.agent_id()?)))
        .collect();
    coming.sort_unstable();
    let most = coming.len() as i64;
    coming.dedup();
    coming.retain(|(mailbox, _)| {
        facts.boxes.get(mailbox).is_some_and(|state| state.counted + most > i64::from(caps.sender))
    });
    coming
}

/// Finds and locks the entries to ack. A claim that is under way on one of them ends
/// first, and the statements behind this one see it.
async fn find_entries(db: &mut PgConnection, postings: &[Posting], facts: &mut Facts) -> Result<()> {
    let acks = postings.iter().filter_map(|posting| Some((posting.org_id, posting.acks.as_ref()?)));
    let wanted: Vec<(Uuid, Uuid, Uuid)> = acks
        .flat_map(|(org_id, acks)| acks.message_ids.iter().map(move |id| (org_id, acks.agent_id, *id)))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "-- inbox.find_entries
         select e.org_id, e.agent_id, e.message_id, e.seq, e.acked_at is not null, e.counted
         from inbox_entry e
         where (e.org_id, e.agent_id, e.message_id) in (select * from unnest($1::uuid[], $2::uuid[], $3::uuid[]))
         order by e.org_id, e.agent_id, e.seq for update",
    )
    .bind(wanted.iter().map(|entry| entry.0).collect::<Vec<_>>())
    .bind(wanted.iter().map(|entry| entry.1).collect::<Vec<_>>())
    .bind(wanted.iter().map(|entry| entry.2).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    for row in rows {
        let entry = EntryState { seq: row.try_get(3)?, is_acked: row.try_get(4)?, counted: row.try_get(5)? };
        facts.entries.insert(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?), entry);
    }
    Ok(())
}

/// Writes keys, messages, entries and the mailboxes' new state in one statement.
///
/// Answers with the places of the postings whose key somebody else took since we
/// looked (from another mailbox, so not under our lock): nothing of them is written.
async fn write(db: &mut PgConnection, postings: &[Posting], verdicts: &[Verdict]) -> Result<HashSet<i32>> {
    let keyed = keyed(postings, verdicts);
    let letters = letters(postings, verdicts);
    if keyed.is_empty() && letters.is_empty() {
        return Ok(HashSet::new());
    }
    let key = |place: &i32| postings[*place as usize].key.as_ref();
    let lost: Vec<i32> = sqlx::query_scalar(WRITE)
        .bind(keyed.iter().map(|(place, _, _)| *place).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(_, of, _)| of.0).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(_, of, _)| of.1).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(_, of, _)| of.2.as_str()).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(_, of, _)| of.3.as_str()).collect::<Vec<_>>())
        .bind(
            keyed
                .iter()
                .map(|(place, _, _)| key(place).map(|key| key.fingerprint.to_vec()))
                .collect::<Vec<_>>(),
        )
        .bind(keyed.iter().map(|(_, _, answer)| Json(answer)).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.place).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.org_id).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.to).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.delivered.seq).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.message_id).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.sender.agent_id()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.sender.name()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.message_type.as_str()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.body.as_str()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.parts.as_ref().map(Json)).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.thread_id).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.in_reply_to).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.ack_requested).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.ack_deadline).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.probe_nonce.as_deref()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.counted).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.delivered.created_at).collect::<Vec<_>>())
        .fetch_all(db)
        .await?;
    Ok(lost.into_iter().collect())
}

/// Keys go in by the order of their text: two batches that meet on one wait for each
/// other one way only.
const WRITE: &str = "-- inbox.write
    with keyed as (
        select * from unnest($1::int[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bytea[], $7::jsonb[])
            as k(place, org_id, agent_id, namespace, key, fingerprint, answer)
    ), won as (
        insert into idempotency (org_id, agent_id, namespace, key, fingerprint, answer)
        select org_id, agent_id, namespace, key, fingerprint, answer from keyed
        order by org_id, agent_id, namespace, key
        on conflict do nothing returning org_id, agent_id, namespace, key
    ), lost as (
        select place from keyed left join won using (org_id, agent_id, namespace, key) where won.key is null
    ), letter as (
        select * from unnest($8::int[], $9::uuid[], $10::uuid[], $11::bigint[], $12::uuid[], $13::uuid[], $14::text[],
                $15::text[], $16::text[], $17::jsonb[], $18::uuid[], $19::uuid[], $20::bool[], $21::timestamptz[],
                $22::text[], $23::bool[], $24::timestamptz[])
            as l(place, org_id, agent_id, seq, message_id, sender_agent_id, sender_name, message_type, body, parts,
                thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, counted, created_at)
        where place not in (select place from lost)
    ), stored as (
        insert into message (org_id, message_id, sender_agent_id, sender_name, recipient_agent_id, message_type, body,
            parts, thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, created_at)
        select org_id, message_id, sender_agent_id, sender_name, agent_id, message_type, body,
            parts, thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, created_at from letter
    ), entered as (
        insert into inbox_entry (org_id, agent_id, seq, message_id, sender_agent_id, counted, ack_requested)
        select org_id, agent_id, seq, message_id, sender_agent_id, counted, ack_requested from letter
    ), grown as (
        select org_id, agent_id, max(seq) as last_seq, count(*)::int as open,
            count(*) filter (where counted)::int as counted, count(*) filter (where ack_requested)::int as ack_wanted
        from letter group by org_id, agent_id
    ), moved as (
        update mailbox m set last_seq = g.last_seq, open = m.open + g.open, counted = m.counted + g.counted,
            ack_wanted = m.ack_wanted + g.ack_wanted
        from grown g where m.org_id = g.org_id and m.agent_id = g.agent_id
    )
    select place from lost";

/// A letter that goes in, and the place of its posting in the batch.
struct Line<'a> {
    place: i32,
    org_id: Uuid,
    letter: &'a Letter,
    delivered: Delivered,
}

fn letters<'a>(postings: &'a [Posting], verdicts: &[Verdict]) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for (place, (posting, verdict)) in postings.iter().zip(verdicts).enumerate() {
        let Verdict::Posted(posted) = verdict else { continue };
        let pairs = posting.letters.iter().zip(&posted.delivered);
        lines.extend(pairs.map(|(letter, delivered)| Line {
            place: place as i32,
            org_id: posting.org_id,
            letter,
            delivered: *delivered,
        }));
    }
    lines
}

fn keyed(postings: &[Posting], verdicts: &[Verdict]) -> Vec<(i32, KeyOf, Value)> {
    let pairs = postings.iter().zip(verdicts).enumerate();
    pairs
        .filter_map(|(place, (posting, verdict))| {
            let Verdict::Posted(posted) = verdict else { return None };
            let answer = (posting.key.as_ref()?.answer)(posted);
            Some((place as i32, posting.key_of()?, answer))
        })
        .collect()
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

/// Acks entries for good, takes them off their runs and off the mailboxes' counts.
async fn settle(
    db: &mut PgConnection,
    postings: &[Posting],
    verdicts: &[Verdict],
    now: Option<OffsetDateTime>,
) -> Result<()> {
    let mut acked: Vec<(Uuid, Uuid, Uuid, Option<Json<&Value>>)> = Vec::new();
    for (posting, verdict) in postings.iter().zip(verdicts) {
        let (Verdict::Posted(posted), Some(acks)) = (verdict, &posting.acks) else { continue };
        let body = || acks.ack_body.as_ref().map(Json);
        acked.extend(posted.acked.iter().map(|id| (posting.org_id, acks.agent_id, *id, body())));
    }
    if acked.is_empty() {
        return Ok(());
    }
    sqlx::query(SETTLE)
        .bind(acked.iter().map(|entry| entry.0).collect::<Vec<_>>())
        .bind(acked.iter().map(|entry| entry.1).collect::<Vec<_>>())
        .bind(acked.iter().map(|entry| entry.2).collect::<Vec<_>>())
        .bind(acked.iter().map(|entry| entry.3.as_ref().map(|body| Json(body.0))).collect::<Vec<_>>())
        .bind(now)
        .execute(db)
        .await?;
    Ok(())
}

/// A run counts what it holds by its last lease: an entry whose lease ran out before
/// is not on that count any more.
const SETTLE: &str = "-- inbox.settle
    with done as (
        update inbox_entry e set acked_at = $5, ack_body = a.ack_body
        from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::jsonb[]) as a(org_id, agent_id, message_id, ack_body)
        where e.org_id = a.org_id and e.agent_id = a.agent_id and e.message_id = a.message_id and e.acked_at is null
        returning e.org_id, e.agent_id, e.counted, e.ack_requested, e.lease_run, e.lease_until
    ), freed as (
        select org_id, agent_id, lease_run, lease_until, count(*)::int as held
        from done where lease_run is not null group by org_id, agent_id, lease_run, lease_until
    ), runs as (
        update claim_run r set held = r.held - f.held from freed f
        where r.org_id = f.org_id and r.agent_id = f.agent_id and r.run_id = f.lease_run and r.lease_until = f.lease_until
    ), shrunk as (
        select org_id, agent_id, count(*)::int as open, count(*) filter (where counted)::int as counted,
            count(*) filter (where ack_requested)::int as ack_wanted
        from done group by org_id, agent_id
    )
    update mailbox m set open = m.open - s.open, counted = m.counted - s.counted,
        ack_wanted = m.ack_wanted - s.ack_wanted, acked_total = m.acked_total + s.open
    from shrunk s where m.org_id = s.org_id and m.agent_id = s.agent_id";
