//! `mailbox_claim`: leases messages to one run.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rows;
use crate::call::{Access, Call, Effect, Hints, Reach, Result, Route, Spec, Tool, lock};
use crate::inbox::its_message;
use crate::inbox::message::{self, Message, State, message_columns};
use crate::{instant, page};

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
        effect: Effect::Transaction,
        hints: Hints::SETS,
        reach: Reach::Everywhere,
        routes: &[Route::post("/api/v1/mailbox/claim")],
    };
    const ALSO_CALLED: &'static [(&'static str, &'static str)] =
        &[("ids", "message_ids"), ("ttl", "lease_seconds"), ("max", "limit")];

    async fn run(&self, call: &mut Call<'_>) -> Result<Claimed> {
        call.stamp_poll().await?;
        let mailbox = (call.caller.org.org_id, call.caller.agent()?.agent_id);
        let db = call.db.get().await?;
        let run_id = self.run_id.unwrap_or_else(Uuid::new_v4);
        let mut messages = match self.run_id {
            // One that is made here holds nothing yet.
            None => Vec::new(),
            Some(run_id) => {
                // Two calls of one run are served one after the other: the second gets the first's batch.
                lock::hold(db, "claim_run", &[mailbox.1.as_bytes(), run_id.as_bytes()]).await?;
                live_batch(db, mailbox, run_id).await?
            }
        };
        let mut remaining = None;
        if messages.is_empty() {
            messages = free(db, mailbox, self.limit, self.message_ids.as_deref()).await?;
            // Measured as they will be shown: a lease adds its end to each.
            show_leased(&mut messages, call.now);
            messages.truncate(page::fitting(&messages, FRAME)?);
            remaining = self.lease(db, mailbox, run_id, &mut messages).await?;
        }
        let remaining = match remaining {
            Some(remaining) => remaining,
            None => rows::summary(db, call.caller).await?.pending,
        };
        Ok(Claimed {
            run_id,
            lease_expires_at: messages.first().and_then(|message| message.lease_expires_at),
            skipped: self.skipped(&messages),
            remaining,
            messages,
        })
    }
}

type Mailbox = (Uuid, Uuid);

/// Bytes kept for what an answer holds beside its messages: 100 skipped ids and the rest.
const FRAME: usize = 5 * 1024;

impl MailboxClaim {
    fn skipped(&self, leased: &[Message]) -> Vec<Uuid> {
        let mut named: HashSet<Uuid> = leased.iter().map(|message| message.id).collect();
        self.message_ids.iter().flatten().filter(|id| named.insert(**id)).copied().collect()
    }

    /// Leases `messages` to the run by the database's clock, tells how many are pending then (`None` when there was
    /// nothing to lease), and clears away runs of this mailbox that ended, so that every summary reads live ones
    /// only. They are locked behind the run's own row, and those that another call has at hand are left: no call
    /// waits for another here.
    async fn lease(
        &self,
        db: &mut PgConnection,
        mailbox: Mailbox,
        run_id: Uuid,
        messages: &mut [Message],
    ) -> Result<Option<i64>> {
        if messages.is_empty() {
            return Ok(None);
        }
        let seqs: Vec<i64> = messages.iter().map(|message| message.seq).collect();
        let row = sqlx::query(
            "-- mailbox.lease
             with lease as (
                select date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => $5) as until
             ), leased as (
                update inbox_entry e set lease_run = $3, lease_until = lease.until
                from lease, (select $1 as org_id, $2 as agent_id, unnest($4) as seq) named
                where e.org_id = named.org_id and e.agent_id = named.agent_id and e.seq = named.seq
             ), run as (
                insert into claim_run (org_id, agent_id, run_id, lease_until, seqs, held)
                select $1, $2, $3, lease.until, $4, cardinality($4) from lease
                on conflict (org_id, agent_id, run_id) do update
                    set lease_until = excluded.lease_until, seqs = excluded.seqs, held = excluded.held
                returning lease_until
             ), ended as (
                select r.org_id, r.agent_id, r.run_id from run, claim_run r
                where r.org_id = $1 and r.agent_id = $2 and r.run_id <> $3 and r.lease_until <= clock_timestamp()
                for update of r skip locked
             ), cleared as (
                delete from claim_run r using ended
                where r.org_id = ended.org_id and r.agent_id = ended.agent_id and r.run_id = ended.run_id
             ), others as (
                select coalesce(sum(r.held), 0)::bigint as held from claim_run r
                where r.org_id = $1 and r.agent_id = $2 and r.run_id <> $3 and r.lease_until > clock_timestamp()
             )
             select run.lease_until, m.open - others.held - cardinality($4) from run, others, mailbox m
             where m.org_id = $1 and m.agent_id = $2",
        )
        .bind(mailbox.0)
        .bind(mailbox.1)
        .bind(run_id)
        .bind(&seqs)
        .bind(self.lease_seconds as f64)
        .fetch_one(db)
        .await?;
        let until: OffsetDateTime = row.try_get(0)?;
        show_leased(messages, until);
        let pending: i64 = row.try_get(1)?;
        Ok(Some(pending.max(0)))
    }
}

fn show_leased(messages: &mut [Message], until: OffsetDateTime) {
    for message in messages {
        message.state = State::Claimed;
        message.lease_expires_at = Some(until);
    }
}

/// What the run holds under a live lease and has not acked: row by row, by key.
async fn live_batch(db: &mut PgConnection, mailbox: Mailbox, run_id: Uuid) -> Result<Vec<Message>> {
    let rows = sqlx::query(concat!(
        "-- mailbox.live_batch\n select ",
        message_columns!(),
        " from (select r.*, unnest(r.seqs) as seq from claim_run r
                where r.org_id = $1 and r.agent_id = $2 and r.run_id = $3 and r.lease_until > clock_timestamp()) r
          cross join lateral (
            select * from inbox_entry e
            where e.org_id = r.org_id and e.agent_id = r.agent_id and e.seq = r.seq offset 0) e",
        its_message!(),
        " where e.acked_at is null and e.lease_run = r.run_id and e.lease_until = r.lease_until
          order by e.seq"
    ))
    .bind(mailbox.0)
    .bind(mailbox.1)
    .bind(run_id)
    .fetch_all(db)
    .await?;
    Ok(rows.iter().map(message::read).collect::<sqlx::Result<_>>()?)
}

/// The oldest messages nobody holds, locked. What another claim or ack has at hand is skipped.
async fn free(
    db: &mut PgConnection,
    mailbox: Mailbox,
    limit: i64,
    only: Option<&[Uuid]>,
) -> Result<Vec<Message>> {
    let rows = sqlx::query(concat!(
        "-- mailbox.free\n select ",
        message_columns!(),
        " from inbox_entry e",
        its_message!(),
        " where e.org_id = $1 and e.agent_id = $2 and e.acked_at is null
            and (e.lease_until is null or e.lease_until <= clock_timestamp())
            and ($4::uuid[] is null or e.message_id = any($4))
          order by e.seq limit $3 for update of e skip locked"
    ))
    .bind(mailbox.0)
    .bind(mailbox.1)
    .bind(limit)
    .bind(only)
    .fetch_all(db)
    .await?;
    Ok(rows.iter().map(message::read).collect::<sqlx::Result<_>>()?)
}
