//! What is told of mail without its text: envelopes, read by cursor.

use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::instant;

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

/// The oldest of what nobody acked after one seq and up to another.
pub async fn unacked(
    db: &mut PgConnection,
    reader: &Reader,
    after: i64,
    upto: i64,
    most: i64,
) -> sqlx::Result<Vec<Envelope>> {
    let rows = sqlx::query(
        "-- inbox.unacked
         select m.message_id, m.sender_agent_id, m.sender_name, m.message_type, m.thread_id, m.ack_requested,
            m.ack_deadline
         from inbox_entry e join message m using (org_id, message_id)
         where e.org_id = $1 and e.agent_id = $2 and e.acked_at is null and e.seq > $3 and e.seq <= $4
         order by e.seq limit $5",
    )
    .bind(reader.org_id)
    .bind(reader.agent_id)
    .bind(after)
    .bind(upto)
    .bind(most)
    .fetch_all(db)
    .await?;
    rows.iter().map(|row| envelope(row, reader)).collect()
}

fn envelope(row: &PgRow, reader: &Reader) -> sqlx::Result<Envelope> {
    let (id, agent_id): (Uuid, Option<Uuid>) = (row.try_get("message_id")?, row.try_get("sender_agent_id")?);
    let from = From {
        r#type: if agent_id.is_some() { "agent" } else { "system" },
        agent_id,
        name: row.try_get("sender_name")?,
    };
    Ok(Envelope {
        id,
        from,
        r#type: row.try_get("message_type")?,
        thread_id: row.try_get("thread_id")?,
        ack_requested: row.try_get("ack_requested")?,
        deadline: row.try_get("ack_deadline")?,
        read_url: format!("{}/api/v1/mailbox/messages/{id}", reader.root),
    })
}
