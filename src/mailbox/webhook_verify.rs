//! `webhook_verify`: asks the endpoint to echo its challenge, now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::webhook::ask;
use super::webhook::rows::{self, NONE, whose};
use crate::call::{Access, Call, Effect, Hints, Reach, Result, Route, Spec, Tool};
use crate::egress::Policy;
use crate::instant;

/// Challenge your webhook's endpoint again. Use it when it was down before, or disabled.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WebhookVerify {
    /// Another agent of your owner; without it, you.
    agent_id: Option<Uuid>,
}

/// How it went.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verified {
    /// The webhook's state now.
    state: String,
    /// Whether the endpoint echoed the challenge this time.
    verified: bool,
    /// When a call to it last failed.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    last_failure_at: Option<OffsetDateTime>,
}

impl Tool for WebhookVerify {
    type Answer = Verified;
    const SPEC: Spec = Spec {
        name: "webhook_verify",
        title: "Verify a webhook",
        access: Access::Agent,
        effect: Effect::Outward,
        hints: Hints { open_world: true, ..Hints::SETS },
        reach: Reach::Everywhere,
        routes: &[Route::post("/api/v1/agents/{agent_id}/webhook/verify")],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Verified> {
        let agent_id = whose(call, self.agent_id).await?;
        let org_id = call.caller.org.org_id;
        let db = call.db.get().await?;
        let hook = rows::find(db, org_id, agent_id).await?.ok_or(NONE)?;
        let policy = Policy::read(db, org_id).await?;
        let asked = ask(call.egress()?, &policy, &hook.url, &hook.challenge).await;
        let db = call.db.get().await?;
        // Registered again meanwhile, it is another webhook, and this says nothing of it.
        let verified = match asked {
            Ok(()) => rows::activate(db, (org_id, agent_id), &hook.challenge).await?,
            Err(reason) => {
                rows::note_failure(db, (org_id, agent_id), &hook.challenge, reason).await?;
                false
            }
        };
        let now = rows::show(db, org_id, agent_id).await?.ok_or(NONE)?;
        if verified {
            call.ring_webhooks();
        }
        Ok(Verified { state: now.state, verified, last_failure_at: now.last_failure_at })
    }
}
