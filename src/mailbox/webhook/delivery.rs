//! One lease of one webhook: verify it, or tell it of its mail, and write down how that went.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use sqlx::postgres::{PgQueryResult, PgRow};
use sqlx::{PgPool, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::notice::{self, Notice};
use super::{Reason, ask, farewell, retry, rows};
use crate::call::{Error, Result, Terms};
use crate::egress::{Egress, Outgoing, Policy};
use crate::inbox::envelopes::{self, Envelope, Reader};
use crate::inbox::{Poster, Verdict};
use crate::postgres::pool;
use crate::telemetry;
use crate::trace::Trace;

/// Most envelopes of a notice; the rest is only counted.
const ENVELOPES: i64 = 20;

/// A webhook that is leased.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub org_id: Uuid,
    pub agent_id: Uuid,
    pub authority: String,
    pub is_failing: bool,
    slug: String,
    url: String,
    sealed_secret: Vec<u8>,
    challenge: String,
    activation: Uuid,
    is_pending: bool,
    announced_seq: i64,
    failures: i32,
    /// It has failed for as long as anybody waits.
    is_given_up: bool,
    lease: Uuid,
}

impl Due {
    /// The columns of a claim, in this order.
    pub(super) fn read(row: &PgRow) -> sqlx::Result<Due> {
        let state: String = row.try_get("state")?;
        Ok(Due {
            org_id: row.try_get("org_id")?,
            agent_id: row.try_get("agent_id")?,
            authority: row.try_get("authority")?,
            is_failing: state == "failing",
            slug: row.try_get("slug")?,
            url: row.try_get("url")?,
            sealed_secret: row.try_get("sealed_secret")?,
            challenge: row.try_get("challenge")?,
            activation: row.try_get("activation")?,
            is_pending: state == "pending",
            announced_seq: row.try_get("announced_seq")?,
            failures: row.try_get("failures")?,
            is_given_up: row.try_get("is_given_up")?,
            lease: row.try_get("lease")?,
        })
    }
}

/// What it takes to carry out a lease.
#[derive(Clone)]
pub(super) struct Courier {
    pub pool: PgPool,
    pub egress: Egress,
    pub terms: Arc<Terms>,
    pub poster: Poster,
}

/// What there is to tell.
struct Mail {
    pending: i64,
    last_seq: i64,
    hosts: Option<Vec<String>>,
    trace: Option<Trace>,
    envelopes: Vec<Envelope>,
}

impl Courier {
    /// Carries out a lease. One that cannot be settled runs out, and somebody else takes it up.
    ///
    /// # Errors
    /// When the database stays away, or what was sealed does not open.
    pub(super) async fn carry_out(&self, due: &Due) -> Result<()> {
        let Some(mail) = self.look(due).await? else { return Ok(()) };
        let policy = Policy::of(mail.hosts.clone());
        if due.is_pending {
            let asked = ask(&self.egress, &policy, &due.url, &due.challenge).await;
            return self.verified(due, asked).await;
        }
        if mail.envelopes.is_empty() {
            return self.told(due, mail.last_seq).await;
        }
        let told = self.tell(due, &policy, &mail).await?;
        let outcome = if told.is_ok() { "told" } else { "failed" };
        metrics::counter!(telemetry::NOTICES, "outcome" => outcome).increment(1);
        match told {
            Ok(()) => self.told(due, mail.last_seq).await,
            Err(reason) if reason.is_final() || due.is_given_up => self.give_up(due, reason).await,
            Err(reason) => self.failed(due, reason).await,
        }
    }

    /// Reads what there is to tell; `None` when the webhook is gone. Up to `last_seq` all is committed, since the
    /// order of seqs is that of commits.
    async fn look(&self, due: &Due) -> Result<Option<Mail>> {
        let (org_id, agent_id) = (due.org_id, due.agent_id);
        let root = self.terms.root_of(&due.slug);
        let reader = Reader { org_id, agent_id, root };
        let after = due.announced_seq;
        let found = pool::idempotent(&self.pool, |db| {
            let reader = reader.clone();
            Box::pin(async move {
                let row = sqlx::query(LOOK).bind(org_id).bind(agent_id).fetch_optional(&mut *db).await?;
                let Some(row) = row else { return Ok(None) };
                let last_seq = row.try_get("last_seq")?;
                let envelopes = envelopes::unacked(db, &reader, after, last_seq, ENVELOPES).await?;
                let (pending, hosts) = (row.try_get("pending")?, row.try_get("hosts")?);
                let trace = row.try_get::<Option<&str>, _>("traceparent")?.and_then(Trace::read);
                Ok(Some(Mail { pending, last_seq, hosts, trace, envelopes }))
            })
        });
        Ok(found.await?)
    }

    async fn tell(&self, due: &Due, policy: &Policy, mail: &Mail) -> Result<Result<(), Reason>> {
        let target =
            match self.egress.parse(&due.url).and_then(|target| policy.judge(&target).map(|()| target)) {
                Ok(target) => target,
                Err(refusal) => return Ok(Err(Reason::Refused(refusal))),
            };
        let key = self.terms.seal.open(&sealed_for(due.org_id, due.agent_id), &due.sealed_secret)?;
        let notice = Notice::new(due.agent_id, mail.pending, mail.last_seq, &mail.envelopes);
        let body = Bytes::from(serde_json::to_vec(&notice).map_err(Error::internal)?);
        let id = notice::id(due.agent_id, due.activation, mail.last_seq);
        let mut headers = notice::signed(&key, &id, now(), &body);
        headers.extend(notice::traced(mail.trace.as_ref()));
        let outgoing = Outgoing { method: Method::POST, headers, body, reads_body: false };
        let answer = self.egress.send(&target, outgoing).await;
        Ok(match answer.map(|answer| Reason::of_status(answer.status)) {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(reason),
            Err(failure) => Err(failure.into()),
        })
    }

    async fn verified(&self, due: &Due, asked: Result<(), Reason>) -> Result<()> {
        let whose = (due.org_id, due.agent_id);
        let noting = pool::idempotent(&self.pool, |db| {
            let challenge = due.challenge.clone();
            Box::pin(async move {
                match asked {
                    Ok(()) => rows::activate(db, whose, &challenge).await.map(drop),
                    Err(reason) => rows::note_failure(db, whose, &challenge, reason).await,
                }
            })
        });
        noting.await?;
        self.settle(due, VERIFIED, |query| query).await
    }

    async fn told(&self, due: &Due, upto: i64) -> Result<()> {
        self.settle(due, TOLD, |query| query.bind(upto)).await
    }

    async fn failed(&self, due: &Due, reason: Reason) -> Result<()> {
        let wait = retry::wait(due.failures.unsigned_abs() + 1, retry::chance());
        self.settle(due, FAILED, |query| query.bind(reason.to_string()).bind(wait)).await
    }

    /// Says so in the agent's own inbox first: it is told for sure, and once. Whoever lost the lease says nothing: what
    /// stands now may be another endpoint.
    async fn give_up(&self, due: &Due, reason: Reason) -> Result<()> {
        if !self.is_leased(due).await? {
            return Ok(());
        }
        let posting = farewell::posting((due.org_id, due.agent_id), due.activation, reason);
        match self.poster.post(posting).await? {
            Verdict::Posted(_) | Verdict::Replayed(_) | Verdict::NoMailbox(_) => {}
            other => {
                return Err(Error::internal(format!("a notice of the service was not taken: {other:?}")));
            }
        }
        metrics::counter!(telemetry::NOTICES, "outcome" => "given_up").increment(1);
        self.settle(due, DISABLED, |query| query.bind(reason.to_string())).await
    }

    async fn is_leased(&self, due: &Due) -> Result<bool> {
        let (org_id, agent_id, lease) = (due.org_id, due.agent_id, due.lease);
        let looking = pool::idempotent(&self.pool, |db| {
            let query = sqlx::query_scalar(LEASED).bind(org_id).bind(agent_id).bind(lease);
            Box::pin(query.fetch_one(db))
        });
        Ok(looking.await?)
    }

    /// Ends the lease. Whoever lost it changes nothing, and so does saying it twice.
    async fn settle(&self, due: &Due, statement: &'static str, bind: impl Fn(Query) -> Query) -> Result<()> {
        let (org_id, agent_id, lease) = (due.org_id, due.agent_id, due.lease);
        let settling = pool::idempotent(&self.pool, |db| {
            let query = bind(sqlx::query(statement).bind(org_id).bind(agent_id).bind(lease));
            Box::pin(async move { query.execute(db).await })
        });
        let _: PgQueryResult = settling.await?;
        Ok(())
    }
}

type Query = sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

const LOOK: &str = "-- webhook.look
    select m.last_seq, p.hosts, w.traceparent,
        greatest(0, m.open - coalesce((
            select sum(r.held) from claim_run r
            where r.org_id = m.org_id and r.agent_id = m.agent_id and r.lease_until > clock_timestamp()), 0))::bigint
            as pending
    from mailbox m join webhook w on w.org_id = m.org_id and w.agent_id = m.agent_id
        left join egress_policy p on p.org_id = m.org_id
    where m.org_id = $1 and m.agent_id = $2";

const LEASED: &str = "-- webhook.leased
    select exists (select from webhook where org_id = $1 and agent_id = $2 and lease = $3)";

/// What was posted meanwhile has made the row due again: `due_at` is the lease's end only where nothing was. One that
/// failed before is looked at once more, since postings leave its `due_at` alone.
const TOLD: &str = "-- webhook.told
    update webhook set announced_seq = greatest(announced_seq, $4), state = 'active', failures = 0,
        failing_since = null, lease = null, lease_until = null,
        due_at = case when state = 'failing' then clock_timestamp() when due_at = lease_until then null else due_at end
    where org_id = $1 and agent_id = $2 and lease = $3";

const FAILED: &str = "-- webhook.failed
    update webhook set state = 'failing', failures = failures + 1,
        failing_since = coalesce(failing_since, clock_timestamp()), last_failure_at = clock_timestamp(),
        last_failure_reason = $4, lease = null, lease_until = null, due_at = clock_timestamp() + $5
    where org_id = $1 and agent_id = $2 and lease = $3";

const DISABLED: &str = "-- webhook.disabled
    update webhook set state = 'disabled', failing_since = null, last_failure_at = clock_timestamp(),
        last_failure_reason = $4, lease = null, lease_until = null, due_at = null
    where org_id = $1 and agent_id = $2 and lease = $3";

/// Whoever is not active by now is tried again when somebody asks for it.
const VERIFIED: &str = "-- webhook.verified
    update webhook set lease = null, lease_until = null, due_at = case when state = 'pending' then null else due_at end
    where org_id = $1 and agent_id = $2 and lease = $3";

/// Whose secret it is: what is sealed for one webhook opens for no other.
pub(crate) fn sealed_for(org_id: Uuid, agent_id: Uuid) -> [u8; 32] {
    let mut context = [0; 32];
    context[..16].copy_from_slice(org_id.as_bytes());
    context[16..].copy_from_slice(agent_id.as_bytes());
    context
}

/// Unix seconds, for a signature.
#[expect(clippy::disallowed_methods, reason = "a signature's time is told to somebody outside")]
fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

/// How long a lease lasts: longer than a call and what is written before and after it.
pub(super) const LEASE: Duration = Duration::from_secs(30);
