//! One lane: a connection that carries out batches, one after the other.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::queue::{Batch, Ticket, Waiting};
use super::{Desk, outcome_unknown};
use crate::error::{Error, Result};
use crate::inbox::post::post;
use crate::inbox::posting::{Patience, Posting, Verdict};
use crate::postgres::pool::{ANSWER, is_lost, silence};
use crate::postgres::transaction::{self, Ended};
use crate::telemetry;
use crate::wakes::Topic;

/// How long the statements of a batch may take together before the connection is given up.
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
            Tried::Refused(_) if postings.len() > 1 => {
                let mut fates = Vec::with_capacity(postings.len());
                for posting in postings {
                    let alone = self.attempt(slice::from_ref(posting), patience).await;
                    fates.extend(fates_of(alone, 1));
                }
                fates
            }
            tried => fates_of(tried, postings.len()),
        }
    }

    async fn attempt(&mut self, postings: &[Posting], patience: Patience) -> Tried {
        let Some(mut db) = self.connection().await else { return Tried::Lost };
        let tried = self.transact(&mut db, postings, patience).await;
        let is_clean = match tried {
            Tried::Done(_) => true,
            Tried::Refused(_) => transaction::rollback(&mut db).await,
            // Nobody can be sure of the connection's state.
            Tried::Lost | Tried::Unknown(_) => false,
        };
        self.db = is_clean.then_some(db);
        tried
    }

    async fn transact(&self, db: &mut PgConnection, postings: &[Posting], patience: Patience) -> Tried {
        let Ok(xid) = transaction::begin(db).await else { return Tried::Lost };
        let work = post(db, self.desk.caps, postings, patience);
        let verdicts = match timeout(WORK, work).await.unwrap_or_else(|_| Err(silence().into())) {
            Ok(verdicts) => verdicts,
            Err(error) => return if is_refused(&error) { Tried::Refused(error) } else { Tried::Lost },
        };
        match transaction::commit(db, &xid, &self.options).await {
            Ended::Committed => {
                self.tell(&verdicts, postings, true);
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

    async fn connection(&mut self) -> Option<PgConnection> {
        if let Some(db) = self.db.take() {
            return Some(db);
        }
        match timeout(ANSWER, PgConnection::connect_with(&self.options)).await {
            Ok(Ok(db)) => Some(db),
            failed => {
                let error = failed.unwrap_or_else(|_| Err(silence())).err();
                tracing::warn!(?error, "a lane cannot reach the database; trying again");
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
