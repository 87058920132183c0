//! `mailbox_claim`: leases messages to one run.

use std::collections::HashSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rows;
use crate::call::caller::BAD_AGENT_KEY;
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::inbox::message::Message;
use crate::inbox::{Claim, Leased, Posted, Posting, Verdict};
use crate::instant;

/// Lease pending messages, oldest first, so that no other worker takes them while you work.
///
/// Use it before you work on mail, then mailbox_ack what is done and claim again for the rest. The
/// same run_id gets the same batch while its lease lives, so a retry is safe; other runs skip it; an
/// expired lease is free again. Without run_id one is made and returned.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MailboxClaim {
    /// Most messages to lease.
    #[serde(default = "rows::hundred")]
    #[schemars(range(min = 1, max = 100))]
    limit: i64,
    /// Your id for this batch of work: the same id is served the same batch.
    run_id: Option<Uuid>,
    /// Lease just these; what cannot be leased is listed in skipped.
    #[schemars(length(min = 1, max = 100))]
    message_ids: Option<Vec<Uuid>>,
    /// How long the lease lives.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1, max = 600))]
    lease_seconds: i64,
}

fn five_minutes() -> i64 {
    300
}

/// A leased batch.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Claimed {
    /// The run that holds the lease.
    run_id: Uuid,
    /// The leased messages, oldest first.
    messages: Vec<Message>,
    /// When the lease ends; null when nothing is leased.
    #[serde(with = "instant::option")]
    #[schemars(with = "Option<String>")]
    lease_expires_at: Option<OffsetDateTime>,
    /// Asked-for ids that are not in this lease: acked, leased elsewhere or not in this mailbox.
    skipped: Vec<Uuid>,
    /// Messages still pending.
    remaining: i64,
}

impl Tool for MailboxClaim {
    type Answer = Claimed;
    const SPEC: Spec = Spec {
        name: "mailbox_claim",
        title: "Lease messages",
        access: Access::Agent,
        effect: Effect::Posting,
        hints: Hints::SETS,
        reach: Reach::Everywhere,
        routes: &[Route::post("/api/v1/mailbox/claim")],
    };
    const ALSO_CALLED: &'static [(&'static str, &'static str)] =
        &[("ids", "message_ids"), ("ttl", "lease_seconds"), ("max", "limit")];

    async fn run(&self, call: &mut Call<'_>) -> Result<Claimed> {
        call.stamp_poll().await?;
        let run_id = self.run_id.unwrap_or_else(Uuid::new_v4);
        let claim = self.claim(call.caller.agent()?.agent_id, run_id);
        let posting = Posting {
            org_id: call.caller.org.org_id,
            letters: Vec::new(),
            acks: None,
            claim: Some(claim),
            only_with_ack: false,
            key: None,
            trace: None,
        };
        match call.post(posting).await? {
            Verdict::Posted(Posted { leased: Some(leased), .. }) => Ok(self.claimed(run_id, leased)),
            Verdict::NoMailbox(_) => Err(Error::Unauthorized(BAD_AGENT_KEY)),
            _ => Err(Error::internal("a claim is kept out by nothing, and has no key")),
        }
    }
}

/// Bytes kept for what an answer holds beside its messages: 100 skipped ids and the rest.
const FRAME: usize = 5 * 1024;

impl MailboxClaim {
    fn claim(&self, agent_id: Uuid, run_id: Uuid) -> Claim {
        Claim {
            agent_id,
            run_id,
            limit: self.limit.unsigned_abs() as usize,
            message_ids: self.message_ids.is_some().then(|| self.named()),
            lease: Duration::from_secs(self.lease_seconds.unsigned_abs()),
            frame: FRAME,
        }
    }

    /// The ids that are asked for; distinct.
    fn named(&self) -> Vec<Uuid> {
        let mut seen = HashSet::new();
        self.message_ids.iter().flatten().filter(|id| seen.insert(**id)).copied().collect()
    }

    fn claimed(&self, run_id: Uuid, leased: Leased) -> Claimed {
        let Leased { messages, remaining, .. } = leased;
        let mut skipped = self.named();
        skipped.retain(|id| messages.iter().all(|message| message.id != *id));
        Claimed {
            run_id,
            lease_expires_at: messages.first().and_then(|message| message.lease_expires_at),
            skipped,
            remaining,
            messages,
        }
    }
}
