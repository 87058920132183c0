//! Writes what was judged: keys and letters in one statement, acks in another.

use std::collections::HashSet;

use serde_json::Value;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::posting::{Delivered, KeyOf, Letter, Mailbox, Posting, Verdict};
use crate::error::Result;
use crate::trace::Trace;

/// Writes keys, messages, entries and the mailboxes' new state in one statement.
///
/// Answers with the places of the postings whose key was taken before: nothing of them is written.
/// Beside it stands whether a webhook became due.
pub(super) async fn write(
    db: &mut PgConnection,
    postings: &[Posting],
    verdicts: &[Verdict],
) -> Result<(HashSet<i32>, bool)> {
    let keyed = keyed(postings, verdicts);
    let letters = letters(postings, verdicts);
    if keyed.is_empty() && letters.is_empty() {
        return Ok((HashSet::new(), false));
    }
    let key = |place: &i32| postings[*place as usize].key.as_ref();
    let mut lost: HashSet<i32> = sqlx::query_scalar(WRITE)
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
        .bind(keyed.iter().map(|(_, _, answer)| answer.to_string()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.place).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.org_id).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.to).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.delivered.seq).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.message_id).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.sender.agent_id()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.sender.name()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.message_type.as_str()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.body.as_str()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.parts.as_deref()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.thread_id).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.in_reply_to).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.ack_requested).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.ack_deadline).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.probe_nonce.as_deref()).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.letter.counted).collect::<Vec<_>>())
        .bind(letters.iter().map(|line| line.delivered.created_at).collect::<Vec<_>>())
        .bind(traces(postings))
        .fetch_all(db)
        .await?
        .into_iter()
        .collect();
    let is_due = lost.remove(&DUE);
    Ok((lost, is_due))
}

/// In the place of a posting: a webhook became due.
const DUE: i32 = -1;

/// The row of a webhook is touched whatever its state, so that a call to it that ends meanwhile waits for this
/// posting and then looks again: between the two no mail is forgotten.
///
/// With it goes the trace of the newest letter, the one of the posting furthest back.
///
/// Keys go in by the order of their text: two batches that meet on one wait for each
/// other one way only. Which ones were taken is looked for, one by one, only when their number tells that
/// some were.
const WRITE: &str = "-- inbox.write
    with keyed as (
        select * from unnest($1::int[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bytea[], $7::text[])
            as k(place, org_id, agent_id, namespace, key, fingerprint, answer)
    ), won as (
        insert into idempotency (org_id, agent_id, namespace, key, fingerprint, answer)
        select org_id, agent_id, namespace, key, fingerprint, answer::json from keyed
        order by org_id, agent_id, namespace, key
        on conflict do nothing returning org_id, agent_id, namespace, key
    ), lost as (
        select place from keyed left join won using (org_id, agent_id, namespace, key)
        where won.key is null and (select count(*) from won) < (select count(*) from keyed)
    ), letter as (
        select * from unnest($8::int[], $9::uuid[], $10::uuid[], $11::bigint[], $12::uuid[], $13::uuid[], $14::text[],
                $15::text[], $16::text[], $17::text[], $18::uuid[], $19::uuid[], $20::bool[], $21::timestamptz[],
                $22::text[], $23::bool[], $24::timestamptz[])
            as l(place, org_id, agent_id, seq, message_id, sender_agent_id, sender_name, message_type, body, parts,
                thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, counted, created_at)
        where place not in (select place from lost)
    ), stored as (
        insert into message (org_id, message_id, sender_agent_id, sender_name, recipient_agent_id, message_type, body,
            parts, thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, created_at)
        select org_id, message_id, sender_agent_id, sender_name, agent_id, message_type, body,
            parts::json, thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, created_at from letter
    ), entered as (
        insert into inbox_entry (org_id, agent_id, seq, message_id, sender_agent_id, counted, ack_requested)
        select org_id, agent_id, seq, message_id, sender_agent_id, counted, ack_requested from letter
    ), grown as (
        select org_id, agent_id, max(seq) as last_seq, count(*)::int as open,
            count(*) filter (where counted)::int as counted, count(*) filter (where ack_requested)::int as ack_wanted,
            max(place) as newest
        from letter group by org_id, agent_id
    ), due as (
        update webhook w set due_at = case w.state when 'active' then clock_timestamp() else w.due_at end,
            traceparent = ($25::text[])[g.newest + 1]
        from grown g where w.org_id = g.org_id and w.agent_id = g.agent_id
        returning w.state
    ), moved as (
        update mailbox m set last_seq = g.last_seq, open = m.open + g.open, counted = m.counted + g.counted,
            ack_wanted = m.ack_wanted + g.ack_wanted
        from grown g where m.org_id = g.org_id and m.agent_id = g.agent_id
    )
    select place from lost union all select -1 where exists (select from due where state = 'active')";

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

/// By place; none at all where no posting belongs to a trace.
fn traces(postings: &[Posting]) -> Vec<Option<&str>> {
    let of = |posting: &Posting| posting.trace.is_some();
    let traced = if postings.iter().any(of) { postings } else { &[] };
    traced.iter().map(|posting| posting.trace.as_ref().map(Trace::as_str)).collect()
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

/// Acks entries for good, takes them off their runs and off the mailboxes' counts.
pub(super) async fn settle(
    db: &mut PgConnection,
    postings: &[Posting],
    verdicts: &[Verdict],
    now: Option<OffsetDateTime>,
) -> Result<()> {
    let mut acked: Vec<(Uuid, Uuid, Uuid, Option<String>)> = Vec::new();
    for (posting, verdict) in postings.iter().zip(verdicts) {
        let (Verdict::Posted(posted), Some(acks)) = (verdict, &posting.acks) else { continue };
        let body = || acks.ack_body.as_ref().map(Value::to_string);
        acked.extend(posted.acked.iter().map(|id| (posting.org_id, acks.agent_id, *id, body())));
    }
    if acked.is_empty() {
        return Ok(());
    }
    sqlx::query(SETTLE)
        .bind(acked.iter().map(|entry| entry.0).collect::<Vec<_>>())
        .bind(acked.iter().map(|entry| entry.1).collect::<Vec<_>>())
        .bind(acked.iter().map(|entry| entry.2).collect::<Vec<_>>())
        .bind(acked.iter().map(|entry| entry.3.as_deref()).collect::<Vec<_>>())
        .bind(now)
        .execute(db)
        .await?;
    Ok(())
}

/// Marks agents as verified that acked a probe with its proof.
pub(super) async fn verify(db: &mut PgConnection, postings: &[Posting], verdicts: &[Verdict]) -> Result<()> {
    let mut verified: Vec<Mailbox> = Vec::new();
    for (posting, verdict) in postings.iter().zip(verdicts) {
        let (Verdict::Posted(posted), Some(acks)) = (verdict, &posting.acks) else { continue };
        if acks.proven.iter().any(|id| posted.acked.contains(id)) {
            verified.push((posting.org_id, acks.agent_id));
        }
    }
    if verified.is_empty() {
        return Ok(());
    }
    // Agents are the last lock in the order, and two batches come at them one way only.
    verified.sort_unstable();
    let (orgs, agents): (Vec<Uuid>, Vec<Uuid>) = verified.into_iter().unzip();
    sqlx::query(
        "-- inbox.verify
         with answered as (
             select a.org_id, a.agent_id from agent a
             where (a.org_id, a.agent_id) in (select * from unnest($1::uuid[], $2::uuid[]))
             order by a.org_id, a.agent_id for no key update)
         update agent a set verified_at = clock_timestamp()
         from answered w where a.org_id = w.org_id and a.agent_id = w.agent_id",
    )
    .bind(orgs)
    .bind(agents)
    .execute(db)
    .await?;
    Ok(())
}

/// The entries are those that `find_entries` found unacked, under the lock of their mailbox: asking for that again would
/// offer a young plan an index of all unacked entries in place of the key.
///
/// A run counts what it holds by its last lease: an entry whose lease ran out before
/// is not on that count any more. One that holds nothing more goes: every summary reads
/// the rows of its mailbox's runs.
const SETTLE: &str = "-- inbox.settle
    with done as (
        update inbox_entry e set acked_at = $5, ack_body = a.ack_body::json
        from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[]) as a(org_id, agent_id, message_id, ack_body)
        where e.org_id = a.org_id and e.agent_id = a.agent_id and e.message_id = a.message_id
        returning e.org_id, e.agent_id, e.counted, e.ack_requested, e.lease_run, e.lease_until
    ), freed as (
        select org_id, agent_id, lease_run, lease_until, count(*)::int as held
        from done where lease_run is not null group by org_id, agent_id, lease_run, lease_until
    ), runs as (
        update claim_run r set held = r.held - f.held from freed f
        where r.org_id = f.org_id and r.agent_id = f.agent_id and r.run_id = f.lease_run
            and r.lease_until = f.lease_until and r.held > f.held
    ), finished as (
        delete from claim_run r using freed f
        where r.org_id = f.org_id and r.agent_id = f.agent_id and r.run_id = f.lease_run
            and r.lease_until = f.lease_until and r.held = f.held
    ), shrunk as (
        select org_id, agent_id, count(*)::int as open, count(*) filter (where counted)::int as counted,
            count(*) filter (where ack_requested)::int as ack_wanted
        from done group by org_id, agent_id
    )
    update mailbox m set open = m.open - s.open, counted = m.counted - s.counted,
        ack_wanted = m.ack_wanted - s.ack_wanted, acked_total = m.acked_total + s.open
    from shrunk s where m.org_id = s.org_id and m.agent_id = s.agent_id";
