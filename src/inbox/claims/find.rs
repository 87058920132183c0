//! What claims could get: messages that nobody holds, and what their runs hold already.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Asked, show_leased};
use crate::error::Result;
use crate::inbox::message::{self, Message, message_columns};
use crate::inbox::posting::Mailbox;
use crate::page::PAGE_BYTES;

/// What is there for the claims of a batch, at one moment.
#[derive(Default)]
pub(super) struct Found {
    /// The moment that leases are judged by, to the millisecond, as they are kept; `None` when nobody asked.
    pub now: Option<OffsetDateTime>,
    pub shelves: HashMap<Mailbox, Shelf>,
}

/// What is there in one mailbox.
#[derive(Default)]
pub(super) struct Shelf {
    /// Messages under no live lease, of which `free` are those that the claims could get.
    pub pending: i64,
    /// By seq.
    pub free: BTreeMap<i64, Message>,
    /// The last seq of the oldest ones: what lies beyond was named by a claim, and has others before it.
    pub oldest_until: i64,
    /// What runs hold under a live lease.
    pub held: HashMap<Uuid, Vec<Message>>,
    /// Runs of the claims that have a live lease.
    live: HashSet<Uuid>,
}

/// One look for free messages: the oldest, for all claims of a mailbox that take any, or those that one claim names.
struct Look {
    mailbox: Mailbox,
    /// Most messages, unless they are named.
    most: i64,
    /// Text beyond so many bytes cannot be on a page of any claim of the mailbox.
    bytes: i64,
    named: Option<String>,
    /// The runs of the mailbox's claims.
    runs: String,
}

/// Finds free messages. A claim finds enough of them, whatever the claims before it take.
pub(super) async fn find_free(db: &mut PgConnection, asked: &[Asked<'_>]) -> Result<Found> {
    let (mut found, looks) = (Found::default(), looks(asked));
    if looks.is_empty() {
        return Ok(found);
    }
    let rows = sqlx::query(FIND_FREE)
        .bind(looks.iter().map(|look| look.mailbox.0).collect::<Vec<_>>())
        .bind(looks.iter().map(|look| look.mailbox.1).collect::<Vec<_>>())
        .bind(looks.iter().map(|look| look.most).collect::<Vec<_>>())
        .bind(looks.iter().map(|look| look.bytes).collect::<Vec<_>>())
        .bind(looks.iter().map(|look| look.named.as_deref()).collect::<Vec<_>>())
        .bind(looks.iter().map(|look| look.runs.as_str()).collect::<Vec<_>>())
        .fetch_all(db)
        .await?;
    for row in rows {
        found.now = Some(row.try_get("now")?);
        let shelf = found.shelves.entry((row.try_get("box_org")?, row.try_get("box_agent")?)).or_default();
        shelf.pending = row.try_get("pending")?;
        shelf.live.extend(row.try_get::<Option<Vec<Uuid>>, _>("live")?.unwrap_or_default());
        // A mailbox without free messages is one row without a message.
        if row.try_get::<Option<i64>, _>("seq")?.is_some() {
            let message = message::read(&row)?;
            if !row.try_get::<bool, _>("is_named")? {
                shelf.oldest_until = shelf.oldest_until.max(message.seq);
            }
            shelf.free.insert(message.seq, message);
        }
    }
    Ok(found)
}

fn looks(asked: &[Asked<'_>]) -> Vec<Look> {
    let mut by_mailbox: BTreeMap<Mailbox, Vec<&Asked<'_>>> = BTreeMap::new();
    for one in asked {
        by_mailbox.entry(one.mailbox).or_default().push(one);
    }
    let mut looks = Vec::new();
    for (mailbox, claims) in by_mailbox {
        let most = claims.iter().map(|asked| asked.claim.limit as i64).sum();
        let bytes = claims.len() as i64 * PAGE_BYTES as i64;
        let runs = array(claims.iter().map(|asked| &asked.claim.run_id));
        let look = |named| Look { mailbox, most, bytes, named, runs: runs.clone() };
        looks.extend(
            claims.iter().filter_map(|asked| Some(look(Some(array(asked.claim.message_ids.as_ref()?))))),
        );
        if claims.iter().any(|asked| asked.claim.message_ids.is_none()) {
            looks.push(look(None));
        }
    }
    looks
}

/// As Postgres writes an array: the rows of one statement have arrays of different lengths.
fn array<'a>(ids: impl IntoIterator<Item = &'a Uuid>) -> String {
    let ids: Vec<String> = ids.into_iter().map(Uuid::to_string).collect();
    format!("{{{}}}", ids.join(","))
}

/// Time is judged once for all, to the millisecond, as ends of leases are kept. Named messages are found by their own
/// keys, each once.
const FIND_FREE: &str = concat!(
    "-- inbox.find_free
     with clock as materialized (select date_trunc('milliseconds', clock_timestamp()) as now)
     select b.org_id as box_org, b.agent_id as box_agent, clock.now, b.open - runs.held as pending, runs.live,
        u.named is not null as is_named, f.*
     from clock
     cross join unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
        as u(org_id, agent_id, most, bytes, named, runs)
     join mailbox b on b.org_id = u.org_id and b.agent_id = u.agent_id
     cross join lateral (
        select coalesce(sum(r.held), 0)::bigint as held,
            array_agg(r.run_id) filter (where r.run_id = any(u.runs::uuid[])) as live
        from claim_run r
        where r.org_id = u.org_id and r.agent_id = u.agent_id and r.lease_until > clock.now) runs
     left join lateral (
        select * from (
            select ",
    message_columns!(),
    ",          sum(octet_length(m.body) + coalesce(octet_length(m.parts::text), 0)) over (order by e.seq) as so_far,
                row_number() over (order by e.seq) = 1 as is_first
            from (
                (select e.* from inbox_entry e
                 where u.named is null and e.org_id = u.org_id and e.agent_id = u.agent_id and e.acked_at is null
                    and (e.lease_until is null or e.lease_until <= clock.now)
                 order by e.seq limit u.most)
                union all
                select e.* from unnest(u.named::uuid[]) n(message_id) cross join lateral (
                    select * from inbox_entry e
                    where e.message_id = n.message_id and e.agent_id = u.agent_id and e.org_id = u.org_id offset 0) e
                where e.acked_at is null and (e.lease_until is null or e.lease_until <= clock.now)) e",
    its_message!(),
    "   ) f where f.so_far <= u.bytes or f.is_first) f on true"
);

/// Finds what the runs that have a live lease hold and have not acked: row by row, by key.
pub(super) async fn find_held(db: &mut PgConnection, asked: &[Asked<'_>], found: &mut Found) -> Result<()> {
    let is_live = |asked: &&Asked<'_>| {
        let shelf = found.shelves.get(&asked.mailbox);
        shelf.is_some_and(|shelf| shelf.live.contains(&asked.claim.run_id))
    };
    let mut runs: Vec<(Mailbox, Uuid)> =
        asked.iter().filter(is_live).map(|asked| (asked.mailbox, asked.claim.run_id)).collect();
    if runs.is_empty() {
        return Ok(());
    }
    runs.sort_unstable();
    runs.dedup();
    let rows = sqlx::query(FIND_HELD)
        .bind(runs.iter().map(|(mailbox, _)| mailbox.0).collect::<Vec<_>>())
        .bind(runs.iter().map(|(mailbox, _)| mailbox.1).collect::<Vec<_>>())
        .bind(runs.iter().map(|(_, run_id)| *run_id).collect::<Vec<_>>())
        .fetch_all(db)
        .await?;
    for row in rows {
        let mut messages = [message::read(&row)?];
        // It was live when the claims were judged, and stays so for them.
        show_leased(&mut messages, row.try_get("lease_until")?);
        let shelf = found.shelves.entry((row.try_get("org_id")?, row.try_get("agent_id")?)).or_default();
        shelf.held.entry(row.try_get("run_id")?).or_default().extend(messages);
    }
    Ok(())
}

const FIND_HELD: &str = concat!(
    "-- inbox.find_held\n select r.org_id, r.agent_id, r.run_id, r.lease_until, ",
    message_columns!(),
    " from (select r.*, unnest(r.seqs) as seq
            from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as a(org_id, agent_id, run_id)
            join claim_run r using (org_id, agent_id, run_id)) r
      cross join lateral (
        select * from inbox_entry e
        where e.org_id = r.org_id and e.agent_id = r.agent_id and e.seq = r.seq offset 0) e",
    its_message!(),
    " where e.acked_at is null and e.lease_run = r.run_id and e.lease_until = r.lease_until
      order by e.seq"
);
