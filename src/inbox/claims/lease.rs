//! Writes down what was leased, and to which run.

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::Result;
use crate::inbox::posting::Mailbox;

/// A new lease.
pub(super) struct Lease {
    pub mailbox: Mailbox,
    pub run_id: Uuid,
    pub until: OffsetDateTime,
    /// Not empty.
    pub seqs: Vec<i64>,
}

/// Leases entries to their runs, each run at most once, and clears away those runs of the same mailboxes that ended
/// by `now`, so that every summary reads live ones only.
pub(super) async fn lease(
    db: &mut PgConnection,
    leases: &[Lease],
    now: Option<OffsetDateTime>,
) -> Result<()> {
    if leases.is_empty() {
        return Ok(());
    }
    let entries = || leases.iter().flat_map(|lease| lease.seqs.iter().map(move |seq| (lease, *seq)));
    sqlx::query(LEASE)
        .bind(entries().map(|(lease, _)| lease.mailbox.0).collect::<Vec<_>>())
        .bind(entries().map(|(lease, _)| lease.mailbox.1).collect::<Vec<_>>())
        .bind(entries().map(|(_, seq)| seq).collect::<Vec<_>>())
        .bind(entries().map(|(lease, _)| lease.run_id).collect::<Vec<_>>())
        .bind(entries().map(|(lease, _)| lease.until).collect::<Vec<_>>())
        .bind(now)
        .execute(db)
        .await?;
    Ok(())
}

/// The chore that forgets runs comes without the mailbox's lock: what it has at hand is left to it.
const LEASE: &str = "-- inbox.lease
    with named as (
        select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::uuid[], $5::timestamptz[])
            as n(org_id, agent_id, seq, run_id, until)
    ), leased as (
        update inbox_entry e set lease_run = n.run_id, lease_until = n.until from named n
        where e.org_id = n.org_id and e.agent_id = n.agent_id and e.seq = n.seq
    ), run as (
        select org_id, agent_id, run_id, until, array_agg(seq) as seqs, count(*)::int as held
        from named group by org_id, agent_id, run_id, until
    ), ended as (
        select r.org_id, r.agent_id, r.run_id
        from (select distinct org_id, agent_id from run) b join claim_run r using (org_id, agent_id)
        where r.lease_until <= $6 and (r.org_id, r.agent_id, r.run_id) not in (
            select org_id, agent_id, run_id from run)
        for update of r skip locked
    ), cleared as (
        delete from claim_run r using ended e
        where r.org_id = e.org_id and r.agent_id = e.agent_id and r.run_id = e.run_id
    )
    insert into claim_run (org_id, agent_id, run_id, lease_until, seqs, held)
    select org_id, agent_id, run_id, until, seqs, held from run
    on conflict (org_id, agent_id, run_id) do update
        set lease_until = excluded.lease_until, seqs = excluded.seqs, held = excluded.held";
