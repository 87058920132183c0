//! The webhook of an agent: what is shown of it, and the statements that tools and deliveries share.

use schemars::JsonSchema;
use serde::Serialize;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Reason;
use crate::call::{Call, Error, Result};
use crate::instant;

/// A webhook, as its agent sees it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Webhook {
    /// pending = not verified yet, active = told of mail, failing = tried again later, disabled = given up.
    pub state: String,
    /// Where notices go.
    pub url: String,
    /// The challenge; shown once, when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
    /// What the endpoint must do.
    pub instructions: String,
    /// When the endpoint last proved that it wants notices.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    pub verified_at: Option<OffsetDateTime>,
    /// When a call to it last failed.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    pub last_failure_at: Option<OffsetDateTime>,
    /// Why, in one word.
    pub last_failure_reason: Option<String>,
}

/// What verification needs to know.
pub struct Hook {
    pub url: String,
    pub challenge: String,
}

/// The agent that a call is about: the one named, which must belong to the caller's owner, or the caller itself.
///
/// # Errors
/// `forbidden` for another owner's agent of the same organization; `not_found` for any other id.
pub async fn whose(call: &mut Call<'_>, named: Option<Uuid>) -> Result<Uuid> {
    let caller = call.caller.agent()?;
    let Some(agent_id) = named.filter(|agent_id| *agent_id != caller.agent_id) else {
        return Ok(caller.agent_id);
    };
    let owner: Option<Uuid> = sqlx::query_scalar(
        "-- mailbox.webhook_owner\n select owner_id from agent where org_id = $1 and agent_id = $2",
    )
    .bind(call.caller.org.org_id)
    .bind(agent_id)
    .fetch_optional(call.db.get().await?)
    .await?;
    match owner {
        None => Err(Error::NotFound("agent")),
        Some(owner_id) if owner_id == caller.owner_id => Ok(agent_id),
        Some(_) => Err(Error::Forbidden("This agent belongs to another owner. Use that owner's agent key.")),
    }
}

/// What is refused about an agent that has none.
pub const NONE: Error = Error::NotFound("webhook of this agent");

/// The webhook of an agent; `None` when it has none.
pub async fn find(db: &mut PgConnection, org_id: Uuid, agent_id: Uuid) -> Result<Option<Hook>> {
    let row = sqlx::query(
        "-- mailbox.find_webhook
         select url, challenge from webhook where org_id = $1 and agent_id = $2",
    )
    .bind(org_id)
    .bind(agent_id)
    .fetch_optional(db)
    .await?;
    let hook = row.map(|row| Ok::<_, sqlx::Error>(Hook { url: row.try_get(0)?, challenge: row.try_get(1)? }));
    Ok(hook.transpose()?)
}

/// How an agent's webhook stands; `None` when it has none.
pub async fn show(db: &mut PgConnection, org_id: Uuid, agent_id: Uuid) -> Result<Option<Webhook>> {
    let row = sqlx::query(
        "-- mailbox.show_webhook
         select state, url, verified_at, last_failure_at, last_failure_reason from webhook
         where org_id = $1 and agent_id = $2",
    )
    .bind(org_id)
    .bind(agent_id)
    .fetch_optional(db)
    .await?;
    let webhook = row.map(|row| {
        Ok::<_, sqlx::Error>(Webhook {
            state: row.try_get(0)?,
            url: row.try_get(1)?,
            challenge: None,
            instructions: INSTRUCTIONS.to_owned(),
            verified_at: row.try_get(2)?,
            last_failure_at: row.try_get(3)?,
            last_failure_reason: row.try_get(4)?,
        })
    });
    Ok(webhook.transpose()?)
}

/// What an endpoint must do, for who has its secret.
pub const INSTRUCTIONS: &str = "Answer GET <url>?challenge=<token> with 200 and the bare token to become active (try again with webhook_verify). \
Then each POST is a notice; answer 2xx within 15 seconds, read the mail with mailbox_check or mailbox_claim. \
The key of its signatures is the lower-case hex SHA-256 of your secret, as text: X-A2A-Signature = hex HMAC-SHA256 of \
\"<X-A2A-Timestamp>.<body>\"; Standard Webhooks libraries take whsec_ followed by the base64 of that text. Drop a \
webhook-id you have seen.";

/// The endpoint has proven that it wants notices, by the challenge of the registration that stands. It is told at once
/// of mail that waits. Tells whether that one still stood.
pub async fn activate(
    db: &mut PgConnection,
    (org_id, agent_id): (Uuid, Uuid),
    challenge: &str,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "-- mailbox.activate_webhook
         update webhook set state = 'active', verified_at = clock_timestamp(), failures = 0, failing_since = null,
            due_at = clock_timestamp(),
            activation = case when state in ('active', 'failing') then activation else $4 end
         where org_id = $1 and agent_id = $2 and challenge = $3",
    )
    .bind(org_id)
    .bind(agent_id)
    .bind(challenge)
    .bind(Uuid::now_v7())
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// The endpoint has not proven it; its state stays.
pub async fn note_failure(
    db: &mut PgConnection,
    (org_id, agent_id): (Uuid, Uuid),
    challenge: &str,
    reason: Reason,
) -> sqlx::Result<()> {
    sqlx::query(
        "-- mailbox.note_webhook_failure
         update webhook set last_failure_at = clock_timestamp(), last_failure_reason = $4
         where org_id = $1 and agent_id = $2 and challenge = $3",
    )
    .bind(org_id)
    .bind(agent_id)
    .bind(challenge)
    .bind(reason.to_string())
    .execute(db)
    .await?;
    Ok(())
}
