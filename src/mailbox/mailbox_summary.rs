//! `GET /api/v1/mailbox/summary`: the counts alone. Stamps no poll.

use schemars::JsonSchema;
use serde::Deserialize;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::rows::{self, Summary};
use crate::call::{Access, Call, Caller, Effect, Hints, Reach, Result, Route, Spec, Tool};
use crate::inbox::its_message;

/// How full your mailbox is. Counts as no poll.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MailboxSummary {}

impl Tool for MailboxSummary {
    type Answer = Summary;
    const SPEC: Spec = Spec {
        name: "mailbox_summary",
        title: "Count the mailbox",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Routes,
        routes: &[Route::get("/api/v1/mailbox/summary")],
    };

    async fn run(&self, call: &mut Call<'_>) -> Result<Summary> {
        let summary = rows::summary(call.db.get().await?, call.caller).await?;
        let last_polled_at = call.last_poll(call.caller.agent()?.agent_id, summary.last_polled_at);
        Ok(Summary {
            last_polled_at,
            oldest_pending_at: oldest_pending_at(call.db.get().await?, call.caller).await?,
            ..summary
        })
    }
}

async fn oldest_pending_at(db: &mut PgConnection, caller: &Caller) -> Result<Option<OffsetDateTime>> {
    let at = sqlx::query_scalar(concat!(
        "-- mailbox.oldest_pending_at\n select m.created_at from inbox_entry e",
        its_message!(),
        "where e.org_id = $1 and e.agent_id = $2 and e.acked_at is null
               and (e.lease_until is null or e.lease_until <= clock_timestamp())
             order by e.seq limit 1"
    ))
    .bind(caller.org.org_id)
    .bind(caller.agent()?.agent_id)
    .fetch_optional(db)
    .await?;
    Ok(at)
}
