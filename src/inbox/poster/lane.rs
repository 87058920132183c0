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
use crate::error::{Error, Result};
use crate::inbox::post::post;
use crate::inbox::posting::{Judged, Patience, Posting, Verdict};
use crate::postgres::pool::is_lost;
use crate::postgres::transaction::{self, Ended, Xid};
use crate::telemetry;
use crate::wakes::Topic;

/// How long everything before the commit may take before the connection is given up.
const WORK: Duration = Duration::from_secs(3);
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
    let mut lane = Lane { desk, options: options.options(SESSION), db: None };
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
    db: Option<PgConnection>,
}

/// A batch that is written and not committed.
struct Began {
    db: PgConnection,
    xid: Xid,
    judged: Judged,
}

/// How a try at a batch ended.
enum Tried {
    /// Committed, or nothing to commit: the verdicts stand.
    Done(Vec<Verdict>),
    /// A statement or the commit was refused; nothing is stored.
    Refused(Error),
    /// The connection was lost before the commit; nothing is stored.
    Lost,
    /// Nobody knows whether the commit happened. Refusals stand all the same.
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
        let Batch { postings, tickets, hold } = batch;
        metrics::histogram!(telemetry::POSTED_TOGETHER).record(postings.len() as f64);
        let fates = self.fates(&postings, hold.patience).await;
        let mut back = Vec::new();
        for ((posting, ticket), fate) in postings.into_iter().zip(tickets).zip(fates) {
            match fate {
                Fate::Answer(answer) => _ = ticket.answer.send(answer),
                Fate::Again { counts } => {
                    let tries = ticket.tries.saturating_add(counts.into());
                    back.push(Waiting { posting, ticket: Ticket { tries, ..ticket } });
                }
            }
        }
        let mut queue = self.desk.queue();
        queue.settle(&hold, back);
        if queue.has_any() {
            self.desk.bell.notify_one();
        }
    }

    /// Carries out a batch, and one by one when it is refused as a whole: one bad posting does not
    /// spoil it for the others.
    async fn fates(&mut self, postings: &[Posting], patience: Patience) -> Vec<Fate> {
        match self.attempt(postings, patience).await {
            Tried::Refused(_) if postings.len() > 1 => self.one_by_one(postings, patience).await,
            tried => fates_of(tried, postings.len()),
        }
    }

    /// Those that there is no time left for, or no connection, come again.
    async fn one_by_one(&mut self, postings: &[Posting], patience: Patience) -> Vec<Fate> {
        let until = Instant::now() + WORK;
        let mut fates = Vec::with_capacity(postings.len());
        for posting in postings {
            let tried = self.attempt(slice::from_ref(posting), patience).await;
            let is_lost = matches!(tried, Tried::Lost);
            fates.extend(fates_of(tried, 1));
            if is_lost || Instant::now() > until {
                break;
            }
        }
        fates.resize_with(postings.len(), || Fate::Again { counts: false });
        fates
    }

    async fn attempt(&mut self, postings: &[Posting], patience: Patience) -> Tried {
        let began = match timeout(WORK, self.begin(postings, patience)).await {
            Ok(Ok(began)) => began,
            Ok(Err(tried)) => return tried,
            Err(_) => return Tried::Lost,
        };
        let Began { mut db, xid, judged: Judged { verdicts, hook_is_due } } = began;
        match transaction::commit(&mut db, &xid, &self.options).await {
            Ended::Committed => {
                self.db = Some(db);
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
    async fn begin(&mut self, postings: &[Posting], patience: Patience) -> Result<Began, Tried> {
        let mut db = self.connection().await.ok_or(Tried::Lost)?;
        let xid = transaction::begin(&mut db).await.map_err(|_| Tried::Lost)?;
        match post(&mut db, self.desk.caps, postings, patience).await {
            Ok(judged) => Ok(Began { db, xid, judged }),
            Err(error) if is_refused(&error) => {
                self.db = transaction::rollback(&mut db).await.then_some(db);
                Err(Tried::Refused(error))
            }
            Err(_) => Err(Tried::Lost),
        }
    }

    async fn connection(&mut self) -> Option<PgConnection> {
        if let Some(db) = self.db.take() {
            return Some(db);
        }
        match PgConnection::connect_with(&self.options).await {
            Ok(db) => Some(db),
            Err(error) => {
                tracing::warn!(%error, "a lane cannot reach the database; trying again");
                sleep(BACK_OFF).await;
                None
            }
        }
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

fn fates_of(tried: Tried, postings: usize) -> Vec<Fate> {
    let again = |counts| (0..postings).map(|_| Fate::Again { counts }).collect();
    let fate = |verdict| match verdict {
        Verdict::Elsewhere => Fate::Again { counts: true },
        verdict => Fate::Answer(Ok(verdict)),
    };
    match tried {
        Tried::Done(verdicts) => verdicts.into_iter().map(fate).collect(),
        Tried::Lost => again(false),
        Tried::Refused(Error::Unavailable { .. }) => again(true),
        Tried::Refused(error) => vec![Fate::Answer(Err(error))],
        Tried::Unknown(verdicts) => (verdicts.into_iter())
            .map(|verdict| match verdict {
                Verdict::Posted(_) => Fate::Answer(Err(outcome_unknown("the commit was not answered"))),
                verdict => fate(verdict),
            })
            .collect(),
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
