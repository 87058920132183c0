//! One lane: a connection that carries out batches, one after the other.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::queue::{Batch, Ticket, Waiting};
use super::{Desk, outcome_unknown};
use crate::error::{Error, Result, cause};
use crate::inbox::post::post;
use crate::inbox::posting::{Care, Judged, Patience, Posting, Verdict};
use crate::postgres::pool::{is_lost, silence};
use crate::postgres::transaction::{self, Ended, Life, Xid};
use crate::telemetry;
use crate::wakes::Topic;

/// How long everything before the commit may take before the connection is given up.
const WORK: Duration = Duration::from_secs(3);
/// How long after a retry more are expected.
const RETRIES: Duration = Duration::from_secs(1);
/// How long to leave a database alone that could not be connected to.
const BACK_OFF: Duration = Duration::from_millis(200);

/// A pod that is stopped inside a transaction holds its locks no longer than this, and freezes
/// nobody: who meets one of them gives up early and comes again.
const SESSION: [(&str, &str); 4] = [
    ("lock_timeout", "250ms"),
    ("statement_timeout", "2s"),
    ("idle_in_transaction_session_timeout", "3s"),
    ("tcp_user_timeout", "5s"),
];

/// Carries out what waits, until `stop`.
pub(super) async fn run(desk: Arc<Desk>, options: PgConnectOptions, stop: CancellationToken) {
    let options = options.options(SESSION);
    let mut lane = Lane { desk, options, session: None, is_lost: false, retries_until: Instant::now() };
    loop {
        // Whoever can run now may still join the batch.
        yield_now().await;
        match lane.desk.take() {
            Some(batch) => lane.carry_out(batch).await,
            None => tokio::select! {
                () = lane.desk.bell.notified() => {}
                () = stop.cancelled() => return,
            },
        }
    }
}

struct Lane {
    desk: Arc<Desk>,
    options: PgConnectOptions,
    session: Option<Session>,
    /// Whether the last try found no database: the first time it may just be an old connection.
    is_lost: bool,
    /// Until then retries are expected: they seldom come alone, and each that comes unexpected has a batch
    /// carried out twice.
    retries_until: Instant,
}

struct Session {
    db: PgConnection,
    life: Life,
}

/// A batch that is written and not committed.
struct Began {
    session: Session,
    /// `None` when nothing is written.
    xid: Option<Xid>,
    verdicts: Vec<Verdict>,
    hook_is_due: bool,
}

/// How a try at a batch ended.
enum Tried {
    /// Committed, or nothing to commit: the verdicts stand.
    Done(Vec<Verdict>),
    /// Its keys must be looked up first; nothing is stored.
    KeyTaken,
    /// A statement or the commit was refused; nothing is stored.
    Refused(Error),
    /// There is no connection, or it was lost before the commit; nothing is stored.
    Lost(Error),
    /// Nobody knows whether the commit happened, and with it everything that was judged.
    Unknown(Vec<Verdict>),
}

/// What becomes of one posting.
enum Fate {
    Answer(Result<Verdict>),
    /// To be tried again; the flag tells whether that counts as a try.
    Again {
        counts: bool,
    },
}

impl Lane {
    async fn carry_out(&mut self, batch: Batch) {
        let Batch { postings, tickets, hold, .. } = batch;
        metrics::histogram!(telemetry::POSTED_TOGETHER).record(postings.len() as f64);
        let fates = self.fates(&postings, hold.patience).await;
        let mut back = Vec::new();
        for ((posting, ticket), fate) in postings.into_iter().zip(tickets).zip(fates) {
            match fate {
                Fate::Answer(answer) => _ = ticket.answer.send(answer),
                Fate::Again { counts } => {
                    let tries = ticket.tries.saturating_add(counts.into());
                    back.push(Waiting::new(posting, Ticket { tries, ..ticket }));
                }
            }
        }
        let mut queue = self.desk.queue();
        queue.settle(&hold, back);
        if queue.has_any() {
            self.desk.bell.notify_one();
        }
    }

    /// Carries out a batch; with its keys looked up first where that turns out to matter, and one by one
    /// when it is refused as a whole: one bad posting does not spoil it for the others.
    async fn fates(&mut self, postings: &[Posting], patience: Patience) -> Vec<Fate> {
        let looks_up_keys = Instant::now() < self.retries_until;
        let mut tried = self.attempt(postings, Care { patience, looks_up_keys }).await;
        if matches!(tried, Tried::KeyTaken) {
            tried = self.attempt(postings, Care { patience, looks_up_keys: true }).await;
        }
        match tried {
            Tried::KeyTaken | Tried::Refused(_) if postings.len() > 1 => {
                self.one_by_one(postings, patience).await
            }
            tried => self.settled(tried, postings.len()).await,
        }
    }

    /// Those that there is no time left for, or no connection, come again.
    async fn one_by_one(&mut self, postings: &[Posting], patience: Patience) -> Vec<Fate> {
        let until = Instant::now() + WORK;
        let mut fates = Vec::with_capacity(postings.len());
        for posting in postings {
            let care = Care { patience, looks_up_keys: true };
            let tried = self.attempt(slice::from_ref(posting), care).await;
            let is_lost = matches!(tried, Tried::Lost(_));
            fates.extend(self.settled(tried, 1).await);
            if is_lost || Instant::now() > until {
                break;
            }
        }
        fates.resize_with(postings.len(), || Fate::Again { counts: false });
        fates
    }

    /// What a try means for its postings. Without a database the lane waits a little before the next one.
    async fn settled(&mut self, tried: Tried, postings: usize) -> Vec<Fate> {
        let again = |counts| (0..postings).map(|_| Fate::Again { counts }).collect();
        match tried {
            Tried::Done(verdicts) => verdicts.into_iter().map(fate).collect(),
            Tried::KeyTaken | Tried::Refused(Error::Unavailable { .. }) => again(true),
            Tried::Refused(error) => vec![Fate::Answer(Err(error))],
            Tried::Lost(error) => {
                if self.is_lost {
                    tracing::warn!(cause = %cause::of(&error), "a lane cannot reach the database; trying again");
                    sleep(BACK_OFF).await;
                }
                self.is_lost = true;
                again(false)
            }
            Tried::Unknown(verdicts) => verdicts.into_iter().map(unknown).collect(),
        }
    }

    async fn attempt(&mut self, postings: &[Posting], care: Care) -> Tried {
        let began = match timeout(WORK, self.begin(postings, care)).await {
            Ok(Ok(began)) => began,
            Ok(Err(tried)) => return tried,
            Err(_) => return Tried::Lost(silence().into()),
        };
        self.is_lost = false;
        let Began { mut session, xid, verdicts, hook_is_due } = began;
        if verdicts.iter().any(Verdict::is_of_retry) {
            self.retries_until = Instant::now() + RETRIES;
        }
        let stores = postings.iter().zip(&verdicts).any(|(posting, verdict)| posting.is_stored_by(verdict));
        if !stores {
            // Claims of empty mailboxes, refusals, replays: nobody waits for the disk.
            self.undo(session).await;
            return Tried::Done(verdicts);
        }
        let Some(xid) = xid else {
            self.undo(session).await;
            return Tried::Refused(Error::internal("what is stored goes with a mailbox"));
        };
        match transaction::commit(&mut session.db, &xid, &self.options).await {
            Ended::Committed { is_answered } => {
                self.session = is_answered.then_some(session);
                self.tell(&verdicts, postings, true);
                if hook_is_due {
                    self.desk.wakes.ring_webhooks();
                }
                Tried::Done(verdicts)
            }
            Ended::Aborted(error) => Tried::Refused(error.into()),
            Ended::Unknown(error) => {
                tracing::warn!(%error, "nobody knows whether a batch of postings was stored");
                // It may be: a needless wake costs a read, a missing one a second.
                self.tell(&verdicts, postings, false);
                Tried::Unknown(verdicts)
            }
        }
    }

    /// Everything up to the commit. A connection that anybody could doubt is dropped, and closed by that.
    async fn begin(&mut self, postings: &[Posting], care: Care) -> Result<Began, Tried> {
        let lost = |error: sqlx::Error| Tried::Lost(error.into());
        let mut session = self.session().await.map_err(lost)?;
        transaction::begin_unnamed(&mut session.db).await.map_err(lost)?;
        let refused = match post(&mut session.db, self.desk.caps, postings, care).await {
            Ok(Judged::Verdicts { verdicts, hook_is_due, transaction_id }) => {
                let xid = transaction_id.map(|id| Xid { id, life: session.life.clone() });
                return Ok(Began { session, xid, verdicts, hook_is_due });
            }
            Ok(Judged::KeyTaken) => Tried::KeyTaken,
            Err(error) if is_refused(&error) => Tried::Refused(error),
            Err(error) => return Err(Tried::Lost(error)),
        };
        self.undo(session).await;
        Err(refused)
    }

    async fn session(&mut self) -> sqlx::Result<Session> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let mut db = PgConnection::connect_with(&self.options).await?;
        let life = transaction::life(&mut db).await?;
        Ok(Session { db, life })
    }

    /// Undoes what was begun, and keeps the session if it is as it was.
    async fn undo(&mut self, mut session: Session) {
        self.session = transaction::rollback(&mut session.db).await.then_some(session);
    }

    /// Wakes who waits for what was stored.
    fn tell(&self, verdicts: &[Verdict], postings: &[Posting], is_stored: bool) {
        let mut news = Vec::new();
        for (posting, verdict) in postings.iter().zip(verdicts) {
            let Verdict::Posted(posted) = verdict else { continue };
            news.extend(
                posted.delivered.iter().map(|letter| {
                    (Topic::Mailbox { org_id: posting.org_id, agent_id: letter.to }, letter.seq)
                }),
            );
        }
        self.desk.wakes.ring(&news);
        if is_stored {
            metrics::counter!(telemetry::MESSAGES_POSTED).increment(news.len() as u64);
        }
    }
}

fn fate(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Elsewhere => Fate::Again { counts: true },
        verdict => Fate::Answer(Ok(verdict)),
    }
}

/// A refusal or a replay may rest on what came before it in the batch.
fn unknown(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Elsewhere => fate(verdict),
        _ => Fate::Answer(Err(outcome_unknown("the commit was not answered"))),
    }
}

/// Whether the database refused a statement, in contrast to a connection that is gone.
fn is_refused(error: &Error) -> bool {
    let Error::Unavailable { source, .. } = error else { return true };
    match source.downcast_ref::<sqlx::Error>() {
        Some(cause @ sqlx::Error::Database(_)) => !is_lost(cause),
        Some(_) => false,
        None => true,
    }
}
