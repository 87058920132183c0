//! `webhook_delete`: an agent is told of its mail no more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::webhook::rows::{NONE, whose};
use crate::call::{Access, Call, Effect, Hints, Reach, Result, Route, Spec, Tool};

/// Remove your webhook. Use it when its endpoint is gone.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WebhookDelete {
    /// Another agent of your owner; without it, you.
    agent_id: Option<Uuid>,
}

/// A webhook that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Deleted {
    /// Whose it was.
    agent_id: Uuid,
    /// Always true.
    deleted: bool,
}

impl Tool for WebhookDelete {
    type Answer = Deleted;
    const SPEC: Spec = Spec {
        name: "webhook_delete",
        title: "Delete a webhook",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints { destructive: true, ..Hints::SETS },
        reach: Reach::Everywhere,
        routes: &[Route::delete("/api/v1/agents/{agent_id}/webhook").emptily()],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Deleted> {
        let agent_id = whose(call, self.agent_id).await?;
        let deleted = sqlx::query(
            "-- mailbox.delete_webhook\n delete from webhook where org_id = $1 and agent_id = $2",
        )
        .bind(call.caller.org.org_id)
        .bind(agent_id)
        .execute(call.db.get().await?)
        .await?;
        match deleted.rows_affected() {
            0 => Err(NONE),
            _ => Ok(Deleted { agent_id, deleted: true }),
        }
    }
}
