//! The messages an ack names, as far as they are in the caller's mailbox.

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::call::{Call, Result};
use crate::inbox::its_message;
use crate::mailbox::rules;

/// A message of the caller's mailbox that an ack names.
pub(super) struct Named {
    pub message_id: Uuid,
    pub sender: Option<Uuid>,
    pub thread_id: Option<Uuid>,
    /// As far as we saw before the mailbox was locked; posting looks again.
    pub is_acked: bool,
    /// The nonce and the body to prove.
    probe: Option<(String, String)>,
}

impl Named {
    /// Whether it is a probe and this its proof.
    pub(super) fn is_proven_by(&self, proof: Option<&Value>) -> bool {
        self.probe.is_some() && self.judge_proof(proof).is_ok()
    }

    /// What is wrong with the proof of a probe; other messages need none.
    pub(super) fn judge_proof(&self, proof: Option<&Value>) -> Result<()> {
        match &self.probe {
            Some((nonce, body)) => rules::judge_proof(self.message_id, nonce, body, proof),
            None => Ok(()),
        }
    }
}

/// Finds them, oldest first. Each by its own key, however young the tables were when the plan was made: hence
/// `offset 0`.
pub(super) async fn find(call: &mut Call<'_>, ids: &[Uuid]) -> Result<Vec<Named>> {
    let rows = sqlx::query(concat!(
        "-- mailbox.named
         select e.message_id, e.acked_at is not null as is_acked, m.sender_agent_id, m.thread_id, m.probe_nonce,
            case when m.probe_nonce is not null then m.body end as body
         from (select distinct unnest($3::uuid[]) as message_id) named
         cross join lateral (
            select * from inbox_entry e
            where e.message_id = named.message_id and e.agent_id = $2 and e.org_id = $1 offset 0) e",
        its_message!(),
        "order by e.seq"
    ))
    .bind(call.caller.org.org_id)
    .bind(call.caller.agent()?.agent_id)
    .bind(ids)
    .fetch_all(call.db.get().await?)
    .await?;
    Ok(rows.iter().map(named).collect::<sqlx::Result<_>>()?)
}

fn named(row: &PgRow) -> sqlx::Result<Named> {
    let nonce: Option<String> = row.try_get("probe_nonce")?;
    let body: Option<String> = row.try_get("body")?;
    Ok(Named {
        message_id: row.try_get("message_id")?,
        sender: row.try_get("sender_agent_id")?,
        thread_id: row.try_get("thread_id")?,
        is_acked: row.try_get("is_acked")?,
        probe: nonce.zip(body),
    })
}
