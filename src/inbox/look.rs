//! What the database says about a batch: state of the mailboxes, earlier keys, counts, entries.
//!
//! [`lock`] comes first: everything behind it is read under the locks it takes.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::posting::{KeyOf, Letter, Mailbox, Patience, Posting};
use super::rules::{BoxState, Earlier, EntryState, Facts};
use crate::config::Caps;
use crate::error::{Error, Result};

/// A macro, so that both spellings of the one statement are literals.
///
/// Each row is locked by a look-up of its own, in the order of the arrays, whatever the planner thinks of the table.
macro_rules! lock {
    ($otherwise:literal) => {
        concat!(
            "-- inbox.lock
             select w.org_id, w.agent_id, m.last_seq, m.counted, m.open, m.guarded, m.hooked,
                date_trunc('milliseconds', clock_timestamp()), (select pg_current_xact_id()::text)
             from unnest($1::uuid[], $2::uuid[]) as w(org_id, agent_id)
             cross join lateral (
                select * from mailbox m where m.org_id = w.org_id and m.agent_id = w.agent_id for no key update ",
            $otherwise,
            ") m"
        )
    };
}

/// Locks the mailboxes of all postings, in order, and reads their state.
pub(super) async fn lock(
    db: &mut PgConnection,
    postings: &[Posting],
    patience: Patience,
    facts: &mut Facts,
) -> Result<()> {
    let mut mailboxes: Vec<Mailbox> = postings.iter().flat_map(Posting::mailboxes).collect();
    mailboxes.sort_unstable();
    mailboxes.dedup();
    let statement = match patience {
        Patience::Skip => lock!("skip locked"),
        Patience::Wait => lock!(""),
    };
    let (orgs, agents): (Vec<Uuid>, Vec<Uuid>) = mailboxes.iter().copied().unzip();
    let rows = sqlx::query(statement).bind(orgs).bind(agents).fetch_all(&mut *db).await?;
    for row in &rows {
        let state = BoxState {
            last_seq: row.try_get(2)?,
            counted: row.try_get::<i32, _>(3)?.into(),
            open: row.try_get::<i32, _>(4)?.into(),
            is_guarded: row.try_get(5)?,
            is_hooked: row.try_get(6)?,
        };
        facts.boxes.insert((row.try_get(0)?, row.try_get(1)?), state);
        facts.now = facts.now.max(Some(row.try_get(7)?));
    }
    facts.transaction_id = rows.first().map(|row| row.try_get(8)).transpose()?;
    mailboxes.retain(|mailbox| !facts.boxes.contains_key(mailbox));
    match patience {
        Patience::Skip if !mailboxes.is_empty() => find_held(db, mailboxes, facts).await,
        _ => Ok(()),
    }
}

/// Which of the mailboxes that could not be locked exist at all.
async fn find_held(db: &mut PgConnection, mailboxes: Vec<Mailbox>, facts: &mut Facts) -> Result<()> {
    let (orgs, agents): (Vec<Uuid>, Vec<Uuid>) = mailboxes.into_iter().unzip();
    let held: Vec<Mailbox> = sqlx::query_as(
        "-- inbox.find_held
         select m.org_id, m.agent_id from mailbox m
         where (m.org_id, m.agent_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(orgs)
    .bind(agents)
    .fetch_all(db)
    .await?;
    facts.held.extend(held);
    Ok(())
}

/// Finds whom guarded mailboxes take no mail from, among the senders of this batch.
pub(super) async fn find_closed(
    db: &mut PgConnection,
    postings: &[Posting],
    facts: &mut Facts,
) -> Result<()> {
    let heeding = letters(postings).filter(|(_, letter)| letter.heeds_policy);
    let mut pairs: Vec<(Mailbox, Uuid)> =
        heeding.filter_map(|(mailbox, letter)| Some((mailbox, letter.sender.agent_id()?))).collect();
    pairs.retain(|(mailbox, _)| facts.boxes.get(mailbox).is_some_and(|state| state.is_guarded));
    if pairs.is_empty() {
        return Ok(());
    }
    let closed: Vec<(Uuid, Uuid, Uuid)> = sqlx::query_as(
        "-- inbox.find_closed
         select p.org_id, p.agent_id, p.sender
         from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as p(org_id, agent_id, sender)
         join agent a using (org_id, agent_id)
         left join agent s on s.org_id = p.org_id and s.agent_id = p.sender
         where exists (
                select from inbound_block b
                where b.org_id = p.org_id and b.agent_id = p.agent_id and b.sender_agent_id = p.sender)
            or case a.inbound
                when 'open' then false
                when 'none' then true
                else a.owner_id is distinct from s.owner_id and not exists (
                    select from message m
                    where m.org_id = p.org_id and m.sender_agent_id = p.agent_id and m.recipient_agent_id = p.sender)
            end",
    )
    .bind(pairs.iter().map(|pair| pair.0.0).collect::<Vec<_>>())
    .bind(pairs.iter().map(|pair| pair.0.1).collect::<Vec<_>>())
    .bind(pairs.iter().map(|pair| pair.1).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    facts.closed.extend(closed.into_iter().map(|(org_id, agent_id, sender)| ((org_id, agent_id), sender)));
    Ok(())
}

/// All letters of a batch with the mailboxes they are for.
fn letters(postings: &[Posting]) -> impl Iterator<Item = (Mailbox, &Letter)> {
    postings
        .iter()
        .flat_map(|posting| posting.letters.iter().map(|letter| ((posting.org_id, letter.to), letter)))
}

/// Finds what earlier postings with these keys answered.
pub(super) async fn find_earlier(db: &mut PgConnection, keys: Vec<KeyOf>, facts: &mut Facts) -> Result<()> {
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
        let answer = serde_json::from_str(row.try_get(5)?).map_err(Error::internal)?;
        facts.earlier.insert(key, Earlier { fingerprint: row.try_get(4)?, answer });
    }
    Ok(())
}

/// Counts only where the sender's cap could bite: in a mailbox with fewer counted
/// entries than that, no single sender can have reached it.
pub(super) async fn count_senders(
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
    let mut coming: HashMap<Mailbox, i64> = HashMap::new();
    for (mailbox, _) in letters(postings).filter(|(_, letter)| letter.counted) {
        *coming.entry(mailbox).or_default() += 1;
    }
    let could_bite = |mailbox: &Mailbox| {
        let state = facts.boxes.get(mailbox);
        state.is_some_and(|state| state.counted + coming[mailbox] > i64::from(caps.sender))
    };
    let mut pairs: Vec<(Mailbox, Uuid)> = letters(postings)
        .filter(|(mailbox, letter)| letter.counted && could_bite(mailbox))
        .filter_map(|(mailbox, letter)| Some((mailbox, letter.sender.agent_id()?)))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Finds the entries to ack. The lock of their mailbox is enough: entries change under it alone.
///
/// Whether one is a probe is asked of its message only where that may be: of what this service wants acked.
pub(super) async fn find_entries(
    db: &mut PgConnection,
    postings: &[Posting],
    facts: &mut Facts,
) -> Result<()> {
    let acks = postings.iter().filter_map(|posting| Some((posting.org_id, posting.acks.as_ref()?)));
    let wanted: Vec<(Uuid, Uuid, Uuid)> = acks
        .flat_map(|(org_id, acks)| acks.message_ids.iter().map(move |id| (org_id, acks.agent_id, *id)))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "-- inbox.find_entries
         select e.org_id, e.agent_id, e.message_id, e.seq, e.acked_at is not null, e.counted, e.sender_agent_id,
            case when e.sender_agent_id is null and e.ack_requested then (
                select m.probe_nonce is not null from message m
                where m.org_id = e.org_id and m.message_id = e.message_id)
            end is true
         from inbox_entry e
         where (e.org_id, e.agent_id, e.message_id) in (select * from unnest($1::uuid[], $2::uuid[], $3::uuid[]))",
    )
    .bind(wanted.iter().map(|entry| entry.0).collect::<Vec<_>>())
    .bind(wanted.iter().map(|entry| entry.1).collect::<Vec<_>>())
    .bind(wanted.iter().map(|entry| entry.2).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    for row in rows {
        let entry = EntryState {
            seq: row.try_get(3)?,
            is_acked: row.try_get(4)?,
            counted: row.try_get(5)?,
            sender: row.try_get(6)?,
            is_probe: row.try_get(7)?,
        };
        facts.entries.insert(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?), entry);
    }
    Ok(())
}
