//! Checks, runs, commits, wakes: what happens to every call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::caller::BAD_AGENT_KEY;
use super::carried::InHand;
use super::db::Db;
use super::fingerprint::Fingerprint;
use super::follow::Follower;
use super::holds::Holds;
use super::progress::{Note, Progress};
use super::registry::{Command, Entry, Ran};
use super::turns::Turns;
use super::{Access, Caller, Effect, Error, Result, Terms};
use crate::egress::Egress;
use crate::inbox::{Polls, Poster, Posting, Verdict};
use crate::wakes::{News, Topic, Wakes};

/// How long a held read that was told of mail and found none waits at least before it looks again: a commit may be
/// told of that did not happen after all.
const NOTHING_THERE: Duration = Duration::from_millis(250);

/// Runs calls. One per pod.
pub struct Dispatch {
    /// The pod's connections.
    pub pool: PgPool,
    /// What calls are judged by.
    pub terms: Arc<Terms>,
    /// Carries out postings.
    pub poster: Poster,
    /// Who has read their mailbox.
    pub polls: Polls,
    /// Who is woken by what was committed.
    pub wakes: Wakes,
    /// The way out.
    pub egress: Egress,
    /// Who works on those connections.
    pub turns: Turns,
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
    /// Where progress goes.
    pub progress: Progress,
}

/// What a running tool may touch.
pub struct Call<'a> {
    /// The database: in a transaction for tools that write.
    pub db: Db<'a>,
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
    pub(super) news: Vec<News>,
    pub(super) posted: u64,
    poster: &'a Poster,
    polls: &'a Polls,
    wakes: &'a Wakes,
    egress: &'a Egress,
    pub(super) is_posting: bool,
    progress: &'a Progress,
    is_replay: bool,
}

impl<'a> Call<'a> {
    /// The way out. Only for tools whose [effect](super::Effect::Outward) it is: nobody holds a connection
    /// while somebody outside takes their time.
    ///
    /// # Errors
    /// `internal_error` for other tools.
    pub fn egress(&mut self) -> Result<&'a Egress> {
        self.db.release()?;
        Ok(self.egress)
    }

    /// Says that a webhook became due by a statement that stands already.
    pub fn ring_webhooks(&self) {
        self.wakes.ring_webhooks();
    }

    /// Stamps one poll of the caller's mailbox: the agent is alive, and from its first poll on permanent.
    ///
    /// # Errors
    /// `unauthorized` for who is no agent, or no more.
    pub async fn stamp_poll(&mut self) -> Result<()> {
        let mailbox = (self.caller.org.org_id, self.caller.agent()?.agent_id);
        let now = self.now;
        // Most need no connection for it.
        if self.polls.note(mailbox, now) {
            return Ok(());
        }
        self.polls.stamp(self.db.get().await?, mailbox, now).await.map_err(|error| match &error {
            // Removed while it polled for the first time.
            sqlx::Error::Database(cause) if cause.is_foreign_key_violation() => {
                Error::Unauthorized(BAD_AGENT_KEY)
            }
            _ => error.into(),
        })
    }

    /// The last poll of an agent, of which `written` stands in the database: one seen here may be newer.
    pub fn last_poll(&self, agent_id: Uuid, written: Option<OffsetDateTime>) -> Option<OffsetDateTime> {
        written.max(self.polls.latest((self.caller.org.org_id, agent_id)))
    }

    /// Wakes who waits for `topic`, once the transaction is committed.
    pub fn ring(&mut self, topic: Topic, at: i64) {
        self.news.push((topic, at));
    }

    /// Counts messages that were stored in the call's own transaction, once it is committed.
    pub fn count_posted(&mut self, letters: usize) {
        self.posted += letters as u64;
    }

    /// Posts: answers once it is stored for good, and wakes who waits for it. Only for tools whose
    /// [effect](super::Effect::Posting) that is.
    ///
    /// # Errors
    /// Those of [`Poster::post`].
    pub async fn post(&mut self, posting: Posting) -> Result<Verdict> {
        // Nobody holds a connection while waiting for another one's commit.
        self.db.release()?;
        self.is_posting = true;
        let posted = self.poster.post(posting).await;
        self.is_posting = false;
        posted
    }

    /// Says that the answer is that of an earlier call with the same key.
    pub fn mark_replay(&mut self) {
        self.is_replay = true;
    }

    /// Whether [`Call::mark_replay`] was said.
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// Tells the client how far the work is, if it listens and is not behind with listening.
    pub fn report(&self, note: Note) {
        self.progress.mention(note);
    }
}

impl Dispatch {
    /// Carries out one call: judges it, runs it, and holds it while it awaits more
    /// and its caller is patient.
    pub async fn call(self: &Arc<Self>, request: Request) -> Result<Ran> {
        let (entry, began) = (request.entry.clone(), Instant::now());
        let outcome = self.carry_out(request, began).await;
        entry.outcomes.note(began, &outcome);
        outcome
    }

    /// Opens a stream of the caller's mailbox, for a door that shows it as it comes. `wait` is the tool's own
    /// argument where `is_bounded`; else the stream goes on until the pod drains.
    ///
    /// # Errors
    /// Those of a call, all before the stream begins.
    pub async fn follow(self: &Arc<Self>, request: Request, is_bounded: bool) -> Result<Follower> {
        let (entry, began) = (request.entry.clone(), Instant::now());
        let opening = async {
            let job = Job::new(request)?;
            let follow = job.command.follow().ok_or_else(|| Error::internal("nothing to follow"))?;
            let wait = is_bounded.then_some(follow.wait);
            self.follower(&Arc::new(job), follow.since, wait, follow.heartbeat).await
        };
        let outcome = opening.await;
        entry.outcomes.note(began, &outcome);
        outcome
    }

    async fn carry_out(self: &Arc<Self>, request: Request, began: Instant) -> Result<Ran> {
        let job = Arc::new(Job::new(request)?);
        // What lasts long is boxed: most calls are short, and would be as large.
        if let (Some(follow), true) = (job.command.follow(), job.progress.is_waited_for()) {
            return Box::pin(self.follow_through(&job, follow)).await;
        }
        let patience = job.command.patience().unwrap_or_default();
        match patience.is_zero() {
            true => self.look(&job, None).await,
            false => Box::pin(self.hold(&job, began, began + patience)).await,
        }
    }

    /// Looks, and while there is nothing sleeps until the caller's mailbox moves.
    async fn hold(self: &Arc<Self>, job: &Arc<Job>, began: Instant, until: Instant) -> Result<Ran> {
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
        let mut pause = Duration::ZERO;
        while let Some(seen) = ran.awaits {
            mail.has_read_to(seen);
            let news = async {
                sleep(pause).await;
                mail.moved_beyond(seen).await;
            };
            let is_over = tokio::select! {
                () = news => false,
                () = revoked.moved_beyond(0) => return Err(Error::Unauthorized(BAD_AGENT_KEY)),
                () = sleep_until(until) => true,
                () = self.draining.cancelled() => true,
            };
            ran = self.look(job, Some(began.elapsed())).await?;
            if is_over {
                break;
            }
            pause = NOTHING_THERE;
        }
        Ok(ran)
    }

    /// Runs the command once, to its end even when its client hangs up.
    pub(super) async fn look(self: &Arc<Self>, job: &Arc<Job>, held_for: Option<Duration>) -> Result<Ran> {
        let (dispatch, job) = (self.clone(), job.clone());
        let in_hand = InHand::default();
        let takes_own_turns = matches!(job.entry.spec.effect, Effect::Posting | Effect::Outward);
        let work = {
            let in_hand = in_hand.clone();
            // Boxed here: every future that it is handed to would hold it twice.
            Box::pin(async move { dispatch.attempts(&job, held_for, &in_hand).await })
        };
        match held_for {
            _ if takes_own_turns => self.turns.carry(in_hand, work).await?,
            None => self.turns.take(work).await?,
            Some(_) => self.turns.take_again(work).await?,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where a call's time is taken")]
    pub(super) fn open<'a>(&'a self, job: &'a Job, db: Db<'a>, held_for: Option<Duration>) -> Call<'a> {
        Call {
            db,
            caller: &job.caller,
            terms: &self.terms,
            now: OffsetDateTime::now_utc(),
            fingerprint: job.fingerprint,
            held_for,
            news: Vec::new(),
            posted: 0,
            poster: &self.poster,
            polls: &self.polls,
            wakes: &self.wakes,
            egress: &self.egress,
            is_posting: false,
            progress: &job.progress,
            is_replay: false,
        }
    }
}

/// A call that is judged and may run more than once.
pub(super) struct Job {
    pub(super) entry: Arc<Entry>,
    pub(super) caller: Caller,
    pub(super) command: Arc<dyn Command>,
    fingerprint: Fingerprint,
    pub(super) progress: Progress,
}

impl Job {
    /// Judges who calls and with what.
    fn new(request: Request) -> Result<Job> {
        let Request { entry, caller, arguments, progress } = request;
        admit(&entry, &caller)?;
        let (command, fingerprint) = entry.read(arguments)?;
        Ok(Job { entry, caller, command, fingerprint, progress })
    }
}

fn admit(entry: &Entry, caller: &Caller) -> Result<()> {
    match entry.spec.access {
        Access::Anyone => Ok(()),
        Access::Agent => caller.agent().map(drop),
        Access::Owner => caller.owner().map(drop),
    }
}
