//! Makes webhooks due, in the transaction that stores what they tell of.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::posting::Mailbox;
use super::rules::Facts;
use super::write::Stored;
use crate::error::Result;
use crate::trace::Trace;

/// Makes those of the mailboxes due that get mail, and tells whether any is.
///
/// A row is touched whatever its state, so that a call to it that ends meanwhile waits for this posting and then looks
/// again: between the two no mail is forgotten. With it goes the trace of the mailbox's newest letter.
pub(super) async fn make_due(db: &mut PgConnection, stored: &Stored<'_>, facts: &Facts) -> Result<bool> {
    let is_hooked = |mailbox: &Mailbox| facts.boxes.get(mailbox).is_some_and(|state| state.is_hooked);
    let traces = stored.letters.iter().map(|line| (line.mailbox(), line.posting.trace.as_ref()));
    // The last one of a mailbox stays.
    let hooked: BTreeMap<Mailbox, Option<&Trace>> =
        traces.filter(|(mailbox, _)| is_hooked(mailbox)).collect();
    if hooked.is_empty() {
        return Ok(false);
    }
    let active: Vec<bool> = sqlx::query_scalar(
        "-- inbox.make_due
         update webhook w set due_at = case w.state when 'active' then clock_timestamp() else w.due_at end,
            traceparent = g.traceparent
         from unnest($1::uuid[], $2::uuid[], $3::text[]) as g(org_id, agent_id, traceparent)
         where w.org_id = g.org_id and w.agent_id = g.agent_id
         returning w.state = 'active'",
    )
    .bind(hooked.keys().map(|mailbox| mailbox.0).collect::<Vec<Uuid>>())
    .bind(hooked.keys().map(|mailbox| mailbox.1).collect::<Vec<Uuid>>())
    .bind(hooked.values().map(|trace| trace.map(Trace::as_str)).collect::<Vec<_>>())
    .fetch_all(db)
    .await?;
    Ok(active.contains(&true))
}
