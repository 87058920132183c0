//! `GET /api/v1/agents/{agent_id}/webhook`: how a webhook stands. Never its secret or challenge.

use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::webhook::rows::{self, NONE, Webhook, whose};
use crate::call::{Access, Call, Effect, Hints, Reach, Result, Route, Spec, Tool};

/// How your webhook stands: its state, and when and why a call to it last failed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WebhookShow {
    /// You, or another agent of your owner.
    agent_id: Uuid,
}

impl Tool for WebhookShow {
    type Answer = Webhook;
    const SPEC: Spec = Spec {
        name: "webhook_show",
        title: "Show a webhook",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Routes,
        routes: &[Route::get("/api/v1/agents/{agent_id}/webhook")],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Webhook> {
        let agent_id = whose(call, Some(self.agent_id)).await?;
        let org_id = call.caller.org.org_id;
        rows::show(call.db.get().await?, org_id, agent_id).await?.ok_or(NONE)
    }
}
