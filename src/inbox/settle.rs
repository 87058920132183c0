//! Settles entries that were acked, and what an ack proves of its agent.

use serde_json::Value;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::posting::{Mailbox, Posting, Verdict};
use crate::error::Result;

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

/// The entries are those that `find_entries` found unacked, under the lock of their mailbox: asking for that again
/// would offer a young plan an index of all unacked entries in place of the key.
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
