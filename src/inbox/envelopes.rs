//! What is told of mail without its text: envelopes, read by cursor.

use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::instant;

/// Most envelopes of one page.
const PAGE: i64 = 100;

/// A message as it is announced: who wrote it and where to read it, never its text.
#[derive(Debug, Serialize)]
pub struct Envelope {
    id: Uuid,
    from: From,
    r#type: String,
    thread_id: Option<Uuid>,
    ack_requested: bool,
    #[serde(with = "instant::option")]
    deadline: Option<OffsetDateTime>,
    read_url: String,
}

#[derive(Debug, Serialize)]
struct From {
    r#type: &'static str,
    agent_id: Option<Uuid>,
    name: String,
}

/// Whose mail is read, and where its reader finds the text.
#[derive(Debug, Clone)]
pub struct Reader {
    /// The organization.
    pub org_id: Uuid,
    /// Whose mailbox.
    pub agent_id: Uuid,
    /// The URL of the organization's doors.
    pub root: String,
}

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Everything after this seq comes, whoever acked it.
    After(i64),
    /// What nobody acked comes first, from `after` up to `head`; then everything after `head`.
    Unacked {
        /// The seq read last.
        after: i64,
        /// Where the mailbox stood at the first look; `None` before it.
        head: Option<i64>,
    },
}

impl Place {
    /// The seq that a reader goes on from.
    pub fn cursor(self) -> i64 {
        match self {
            Place::After(after) | Place::Unacked { after, .. } => after,
        }
    }
}

/// What a look at a mailbox gave.
#[derive(Debug)]
pub struct Page {
    /// In the order of their seqs, which stand beside them.
    pub envelopes: Vec<(i64, Envelope)>,
    /// Where the reader stands now.
    pub place: Place,
    /// Whether there may be more already.
    pub has_more: bool,
    /// Whether the reader stood beyond the newest message: it now stands there.
    pub was_ahead: bool,
}

/// The next page of a mailbox; `None` when there is no such mailbox any more.
pub async fn read(db: &mut PgConnection, reader: &Reader, place: Place) -> sqlx::Result<Option<Page>> {
    let rows = match place {
        Place::After(after) => rows_after(db, reader, after).await,
        Place::Unacked { after, head } => rows_unacked(db, reader, after, head).await,
    }?;
    let Some(first) = rows.first() else { return Ok(None) };
    let head: i64 = first.try_get("last_seq")?;
    // A mailbox without news is one row without an entry.
    let entries = rows.iter().filter_map(|row| envelope(row, reader).transpose());
    let envelopes = entries.collect::<sqlx::Result<Vec<_>>>()?;
    let is_full = envelopes.len() as i64 == PAGE;
    let last = envelopes.last().map(|(seq, _)| *seq);
    let was_ahead = last.is_none() && place.cursor() > head;
    let place = match (place, last) {
        (Place::Unacked { head: until, .. }, Some(last)) if is_full => {
            Place::Unacked { after: last, head: until.or(Some(head)) }
        }
        // The backlog ends at the head of its first look: what came later may be acked and is still news.
        (Place::Unacked { head: until, .. }, _) => Place::After(until.unwrap_or(head)),
        (Place::After(_), Some(last)) if is_full => Place::After(last),
        // All there was up to the head is read, also where seqs were left out.
        (Place::After(_), _) => Place::After(head),
    };
    Ok(Some(Page { envelopes, has_more: is_full || place.cursor() < head, place, was_ahead }))
}

/// The columns of a page: where the mailbox stands, and beside it the entries, all of one moment.
macro_rules! page_columns {
    () => {
        "b.last_seq, e.seq, e.message_id, e.sender_agent_id, e.sender_name, e.message_type, e.thread_id,
         e.ack_requested, e.ack_deadline"
    };
}

/// The columns of [`page_columns`] that an entry gives.
macro_rules! entry_columns {
    () => {
        concat!(
            "e.seq, m.message_id, m.sender_agent_id, m.sender_name, m.message_type, m.thread_id, m.ack_requested,
             m.ack_deadline from inbox_entry e",
            its_message!()
        )
    };
}

async fn rows_after(db: &mut PgConnection, reader: &Reader, after: i64) -> sqlx::Result<Vec<PgRow>> {
    sqlx::query(concat!(
        "-- inbox.envelopes_after\n select ",
        page_columns!(),
        " from mailbox b left join lateral (select ",
        entry_columns!(),
        "   where e.org_id = $1 and e.agent_id = $2 and e.seq > $3 order by e.seq limit $4) e on true
          where b.org_id = $1 and b.agent_id = $2 order by e.seq"
    ))
    .bind(reader.org_id)
    .bind(reader.agent_id)
    .bind(after)
    .bind(PAGE)
    .fetch_all(db)
    .await
}

async fn rows_unacked(
    db: &mut PgConnection,
    reader: &Reader,
    after: i64,
    head: Option<i64>,
) -> sqlx::Result<Vec<PgRow>> {
    sqlx::query(concat!(
        "-- inbox.envelopes_unacked\n select ",
        page_columns!(),
        " from mailbox b left join lateral (select ",
        entry_columns!(),
        "   where e.org_id = $1 and e.agent_id = $2 and e.acked_at is null and e.seq > $3
              and e.seq <= coalesce($5, b.last_seq)
            order by e.seq limit $4) e on true
          where b.org_id = $1 and b.agent_id = $2 order by e.seq"
    ))
    .bind(reader.org_id)
    .bind(reader.agent_id)
    .bind(after)
    .bind(PAGE)
    .bind(head)
    .fetch_all(db)
    .await
}

/// The oldest of what nobody acked after one seq and up to another.
pub async fn unacked(
    db: &mut PgConnection,
    reader: &Reader,
    after: i64,
    upto: i64,
    most: i64,
) -> sqlx::Result<Vec<Envelope>> {
    let rows = sqlx::query(concat!(
        "-- inbox.unacked\n select ",
        entry_columns!(),
        " where e.org_id = $1 and e.agent_id = $2 and e.acked_at is null and e.seq > $3 and e.seq <= $4
              order by e.seq limit $5"
    ))
    .bind(reader.org_id)
    .bind(reader.agent_id)
    .bind(after)
    .bind(upto)
    .bind(most)
    .fetch_all(db)
    .await?;
    rows.iter()
        .filter_map(|row| envelope(row, reader).transpose())
        .map(|read| read.map(|(_, envelope)| envelope))
        .collect()
}

fn envelope(row: &PgRow, reader: &Reader) -> sqlx::Result<Option<(i64, Envelope)>> {
    let Some(seq) = row.try_get("seq")? else { return Ok(None) };
    let (id, agent_id): (Uuid, Option<Uuid>) = (row.try_get("message_id")?, row.try_get("sender_agent_id")?);
    let from = From {
        r#type: if agent_id.is_some() { "agent" } else { "system" },
        agent_id,
        name: row.try_get("sender_name")?,
    };
    let envelope = Envelope {
        id,
        from,
        r#type: row.try_get("message_type")?,
        thread_id: row.try_get("thread_id")?,
        ack_requested: row.try_get("ack_requested")?,
        deadline: row.try_get("ack_deadline")?,
        read_url: format!("{}/api/v1/mailbox/messages/{id}", reader.root),
    };
    Ok(Some((seq, envelope)))
}
