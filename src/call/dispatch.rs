//! Checks, runs, commits, wakes: what happens to every call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caller::{NO_AGENT_KEY, NO_OWNER_KEY};
use super::fingerprint::Fingerprint;
use super::holds::Holds;
use super::registry::{Command, Entry, Ran};
use super::transaction::{ATTEMPT, Ended, Transaction};
use super::{Access, Caller, Effect, Error, Result, Terms};
use crate::postgres::pool::{ACQUIRE, Borrowed, is_lost, silence};
use crate::telemetry;
use crate::wakes::{News, Topic, Wakes};

/// Runs calls. One per pod; cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    /// The pod's connections.
    pub pool: PgPool,
    /// What calls are judged by.
    pub terms: Arc<Terms>,
    /// Who is woken by what was committed.
    pub wakes: Wakes,
    /// Every database call runs in one of these tasks: a client that hangs up
    /// ends its wait, never a statement half way.
    pub tasks: TaskTracker,
    /// One for each connection of the pool. Calls queue for these, not for the pool, and a client
    /// that hangs up leaves the queue.
    pub turns: Arc<Semaphore>,
    /// Held reads of this pod.
    pub holds: Holds,
    /// Set when the pod drains: held reads then answer what they have.
    pub draining: CancellationToken,
}

/// One call, whichever door it came in by.
pub struct Request {
    /// The tool.
    pub entry: Arc<Entry>,
    /// Who calls.
    pub caller: Caller,
    /// The arguments as they came, credentials included.
    pub arguments: Map<String, Value>,
    /// Where progress goes, when the client asked for it.
    pub progress: Option<Progress>,
}

/// Where a running tool reports how far it is.
pub type Progress = UnboundedSender<Note>;

/// How far a running tool is.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Strictly increasing.
    pub progress: f64,
    /// What `progress` runs up to, where that is known.
    pub total: Option<f64>,
    /// A line for people, or JSON for programs.
    pub message: Option<String>,
}

/// What a running tool may touch.
pub struct Call<'a> {
    /// The connection: in a transaction for tools that write.
    pub db: &'a mut PgConnection,
    /// Who calls.
    pub caller: &'a Caller,
    /// What this deployment allows.
    pub terms: &'a Terms,
    /// When the call began. Leases and deadlines go by the database's clock instead.
    pub now: OffsetDateTime,
    /// What the judged arguments hash to.
    pub fingerprint: Fingerprint,
    /// How long the call was held so far; `None` at the first look.
    pub held_for: Option<Duration>,
    news: Vec<News>,
    progress: Option<&'a Progress>,
    is_replay: bool,
}

impl Call<'_> {
    /// Wakes who waits for `topic`, once the transaction is committed.
    pub fn ring(&mut self, topic: Topic, at: i64) {
        self.news.push((topic, at));
    }

    /// Says that the answer is that of an earlier call with the same key.
    pub fn mark_replay(&mut self) {
        self.is_replay = true;
    }

    /// Whether [`Call::mark_replay`] was said.
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// Tells the client how far the work is, if it listens.
    pub fn report(&self, note: Note) {
        if let Some(progress) = self.progress {
            // A client that has gone away is no reason to stop.
            let _ = progress.send(note);
        }
    }
}

impl Dispatch {
    /// Carries out one call: judges it, runs it, and holds it while it awaits more
    /// and its caller is patient.
    pub async fn call(&self, request: Request) -> Result<Ran> {
        let began = Instant::now();
        let name = request.entry.spec.name;
        let outcome = self.carry_out(request, began).await;
        let word = outcome.as_ref().map_or_else(|error| error.verdict().0, |_| "ok");
        metrics::counter!(telemetry::CALLS, "tool" => name, "outcome" => word).increment(1);
        metrics::histogram!(telemetry::CALL_SECONDS, "tool" => name).record(began.elapsed().as_secs_f64());
        if let Err(error) = &outcome {
            log(name, error);
        }
        outcome
    }

    async fn carry_out(&self, request: Request, began: Instant) -> Result<Ran> {
        let Request { entry, caller, arguments, progress } = request;
        admit(&entry, &caller)?;
        let (command, fingerprint) = entry.read(arguments)?;
        let patience = command.patience().unwrap_or_default();
        let job = Arc::new(Job { entry, caller, command, fingerprint, progress });
        match patience.is_zero() {
            true => self.look(&job, None).await,
            false => self.hold(&job, began, began + patience).await,
        }
    }

    /// Looks, and while there is nothing sleeps until the caller's mailbox moves.
    async fn hold(&self, job: &Arc<Job>, began: Instant, until: Instant) -> Result<Ran> {
        let agent = job.caller.agent()?;
        let org_id = job.caller.org.org_id;
        // Listen before reading: a message stored between the two must still wake us.
        let mut mail = self.wakes.sleeper(Topic::Mailbox { org_id, agent_id: agent.agent_id });
        let mut revoked = self.wakes.sleeper(Topic::Credential(agent.credential_id));
        let mut ran = self.look(job, None).await?;
        if ran.awaits.is_none() {
            return Ok(ran);
        }
        let _hold = self.holds.take(org_id, agent.agent_id)?;
        while let Some(seen) = ran.awaits {
            mail.has_read_to(seen);
            let is_over = tokio::select! {
                () = mail.moved_beyond(seen) => false,
                () = revoked.moved_beyond(0) => return Err(Error::Unauthorized(NO_AGENT_KEY)),
                () = sleep_until(until) => true,
                () = self.draining.cancelled() => true,
            };
            ran = self.look(job, Some(began.elapsed())).await?;
            if is_over {
                break;
            }
        }
        Ok(ran)
    }

    /// Runs the command once, in a task of its own.
    async fn look(&self, job: &Arc<Job>, held_for: Option<Duration>) -> Result<Ran> {
        let turn = timeout(ACQUIRE, self.turns.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(Error::internal)?;
        let (dispatch, job) = (self.clone(), job.clone());
        let task = self.tasks.spawn(tracing::Instrument::in_current_span(async move {
            let outcome = dispatch.attempts(&job, held_for).await;
            drop(turn);
            outcome
        }));
        task.await.unwrap_or_else(|died| Err(Error::internal(died)))
    }

    /// Again when Postgres says that two calls collided, when a commit surely did not happen,
    /// or when the connection was lost before it.
    async fn attempts(&self, job: &Job, held_for: Option<Duration>) -> Result<Ran> {
        let (mut collisions, mut losses) = (0, 0);
        // Each attempt takes one dead connection out of the pool, and all of them may be dead.
        let most_losses = self.pool.options().get_max_connections() + 1;
        loop {
            let outcome = match job.entry.spec.effect {
                Effect::Statements => self.read(job, held_for).await,
                Effect::Transaction => self.write(job, held_for).await,
            };
            match outcome {
                Err(Failed::Collided(_)) if collisions < MOST_COLLISIONS => collisions += 1,
                Err(Failed::Lost(_)) if losses < most_losses => losses += 1,
                Err(Failed::Collided(error) | Failed::Lost(error) | Failed::For(error)) => return Err(error),
                Ok(ran) => return Ok(ran),
            }
        }
    }

    async fn read(&self, job: &Job, held_for: Option<Duration>) -> Result<Ran, Failed> {
        let mut connection = Borrowed::from(&self.pool).await.map_err(Error::from)?;
        let mut call = self.open(job, connection.db().map_err(Error::from)?, held_for);
        let ran = in_time(job.command.run(&mut call)).await;
        if !matches!(ran, Err(Error::Unavailable { .. })) {
            connection.release();
        }
        Ok(ran?)
    }

    async fn write(&self, job: &Job, held_for: Option<Duration>) -> Result<Ran, Failed> {
        let mut transaction = Transaction::begin(&self.pool).await?;
        let mut call = self.open(job, transaction.connection()?, held_for);
        let ran = in_time(job.command.run(&mut call)).await;
        let news = call.news;
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => {
                transaction.rollback().await;
                return Err(error.into());
            }
        };
        match transaction.commit(&self.pool).await {
            Ended::Committed => {
                let letters = news.iter().filter(|(topic, _)| matches!(topic, Topic::Mailbox { .. }));
                metrics::counter!(telemetry::MESSAGES_POSTED).increment(letters.count() as u64);
                self.wakes.ring(&news);
                Ok(ran)
            }
            Ended::Aborted(error) => Err(Failed::Collided(Error::from(error))),
            Ended::Unknown(error) => {
                // It may be stored: a needless wake costs a read, a missing one a second.
                self.wakes.ring(&news);
                Err(Failed::For(Error::Unavailable { outcome_unknown: true, source: error.into() }))
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where a call's time is taken")]
    fn open<'a>(&'a self, job: &'a Job, db: &'a mut PgConnection, held_for: Option<Duration>) -> Call<'a> {
        Call {
            db,
            caller: &job.caller,
            terms: &self.terms,
            now: OffsetDateTime::now_utc(),
            fingerprint: job.fingerprint,
            held_for,
            news: Vec::new(),
            progress: job.progress.as_ref(),
            is_replay: false,
        }
    }
}

/// A call that is judged and may run more than once.
struct Job {
    entry: Arc<Entry>,
    caller: Caller,
    command: Arc<dyn Command>,
    fingerprint: Fingerprint,
    progress: Option<Progress>,
}

/// How often a call that collided is tried again.
const MOST_COLLISIONS: usize = 3;

/// How one attempt failed.
enum Failed {
    /// Nothing was stored, and the same attempt may succeed now.
    Collided(Error),
    /// The connection was lost before anything was stored.
    Lost(Error),
    /// For good.
    For(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        let Error::Unavailable { source, outcome_unknown: false } = &error else { return Failed::For(error) };
        match source.downcast_ref() {
            Some(cause) if is_collision(cause) => Failed::Collided(error),
            Some(cause) if is_lost(cause) => Failed::Lost(error),
            _ => Failed::For(error),
        }
    }
}

/// Serialization failures and deadlocks.
fn is_collision(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refused| refused.code());
    matches!(code.as_deref(), Some("40001" | "40P01"))
}

/// The work of one attempt. When nothing comes of it in time, the connection is a black hole.
async fn in_time(work: impl Future<Output = Result<Ran>>) -> Result<Ran> {
    timeout(ATTEMPT, work).await.unwrap_or_else(|_| Err(silence().into()))
}

fn admit(entry: &Entry, caller: &Caller) -> Result<()> {
    match entry.spec.access {
        Access::Anyone => Ok(()),
        Access::Agent if caller.agent.is_none() => Err(Error::Unauthorized(NO_AGENT_KEY)),
        Access::Owner if caller.owner.is_none() => Err(Error::Unauthorized(NO_OWNER_KEY)),
        Access::Agent | Access::Owner => Ok(()),
    }
}

/// Once, here: what callers did wrong is theirs to read, the rest is ours.
fn log(tool: &'static str, error: &Error) {
    match error {
        Error::Internal(cause) => {
            tracing::error!(tool, cause = %chain(&**cause), "a call failed for a fault of ours")
        }
        Error::Unavailable { source, .. } => {
            tracing::warn!(tool, cause = %chain(&**source), "a call could not be carried out");
        }
        refused => tracing::debug!(tool, code = refused.verdict().0, "a call was refused"),
    }
}

/// Database errors can quote values of the caller: only their code is logged.
fn chain(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match cause.downcast_ref::<sqlx::Error>() {
        Some(sqlx::Error::Database(refused)) => {
            format!(
                "SQLSTATE {}, {}",
                refused.code().unwrap_or_default(),
                refused.constraint().unwrap_or("no constraint")
            )
        }
        Some(other) => other.to_string(),
        None => cause.to_string(),
    }
}
