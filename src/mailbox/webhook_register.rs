//! `webhook_register`: where an agent wants to be told of its mail.

use schemars::JsonSchema;
use serde::Deserialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::webhook::rows::{Webhook, whose};
use super::webhook::{sealed_for, signing_key, whsec};
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::egress::{Policy, Refusal, Target};

/// Be told of mail at your own https endpoint, instead of polling. Call it once; again replaces it. The endpoint must
/// echo a challenge first: see instructions. Notices are signed and hold no text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WebhookRegister {
    /// https, a public host, port 443 or 8443.
    #[schemars(length(min = 1, max = 512))]
    url: String,
    /// Signs the notices. Keep it.
    #[schemars(length(min = 1, max = 512))]
    secret: String,
    /// Another agent of your owner; without it, you.
    agent_id: Option<Uuid>,
}

impl Tool for WebhookRegister {
    type Answer = Webhook;
    const SPEC: Spec = Spec {
        name: "webhook_register",
        title: "Register a webhook",
        access: Access::Agent,
        effect: Effect::Outward,
        hints: Hints { open_world: true, ..Hints::SETS },
        reach: Reach::Everywhere,
        routes: &[Route::put("/api/v1/agents/{agent_id}/webhook")],
    };
    const EXAMPLE: Option<&'static str> =
        Some(r#"{"url":"https://hooks.example.com/mail","secret":"a long random text"}"#);
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Webhook> {
        let agent_id = whose(call, self.agent_id).await?;
        let org_id = call.caller.org.org_id;
        let policy = Policy::read(call.db.get().await?, org_id).await?;
        let egress = call.egress()?;
        let target = egress.parse(&self.url).map_err(refused)?;
        policy.judge(&target).map_err(refused)?;
        egress.look_up(&target).await.map_err(refused)?;
        let key = signing_key(&self.secret);
        let sealed = call.terms.seal.close(&sealed_for(org_id, agent_id), key.as_bytes())?;
        let challenge = Uuid::new_v4().simple().to_string();
        store(call.db.get().await?, (org_id, agent_id), &target, &sealed, &challenge).await?;
        call.ring_webhooks();
        Ok(Webhook {
            state: "pending".to_owned(),
            url: target.url().to_owned(),
            instructions: instructions(&key),
            challenge: Some(challenge),
            verified_at: None,
            last_failure_at: None,
            last_failure_reason: None,
        })
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::UrlRefused { field: "url", refusal }
}

fn instructions(key: &str) -> String {
    format!(
        "Answer GET <url>?challenge=<token> with 200 and the bare token: it is asked now, and again by webhook_verify. \
         Then each POST is a notice: answer 2xx within 15 seconds and read the mail with mailbox_check or \
         mailbox_claim. Its X-A2A-Signature is the hex HMAC-SHA256 of \"<X-A2A-Timestamp>.<body>\", keyed by the \
         lower-case hex SHA-256 of your secret, as text. Libraries for Standard Webhooks take {}. Drop a webhook-id you \
         have seen.",
        whsec(key)
    )
}

/// Whatever stood before is gone, a call under way included; mail that waits is told of when the endpoint is active.
///
/// The mailbox is locked first, as when mail comes. That it is hooked stays noted for good: who takes a webhook away
/// need not hold the mailbox.
async fn store(
    db: &mut PgConnection,
    (org_id, agent_id): (Uuid, Uuid),
    target: &Target,
    sealed: &[u8],
    challenge: &str,
) -> Result<()> {
    let done = sqlx::query(
        "-- mailbox.register_webhook
         with hooked as (
            update mailbox set hooked = true where org_id = $1 and agent_id = $2 returning org_id, agent_id
         )
         insert into webhook (org_id, agent_id, url, authority, sealed_secret, challenge, activation, due_at)
         select org_id, agent_id, $3, $4, $5, $6, $7, clock_timestamp() from hooked
         on conflict (org_id, agent_id) do update set url = excluded.url, authority = excluded.authority,
            sealed_secret = excluded.sealed_secret, challenge = excluded.challenge, activation = excluded.activation,
            state = 'pending', verified_at = null, announced_seq = 0, due_at = excluded.due_at, failures = 0,
            failing_since = null, last_failure_at = null, last_failure_reason = null, lease = null, lease_until = null",
    )
    .bind(org_id)
    .bind(agent_id)
    .bind(target.url())
    .bind(target.authority())
    .bind(sealed)
    .bind(challenge)
    .bind(Uuid::now_v7())
    .execute(db)
    .await?;
    match done.rows_affected() {
        0 => Err(Error::NotFound("agent")),
        _ => Ok(()),
    }
}
