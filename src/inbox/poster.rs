//! Group posting: while one batch commits, the next one gathers.
//!
//! A commit is bought with a flush, whatever it holds. So postings are not carried out one by
//! one: each of the pod's lanes takes what waits, carries it out in one transaction, and
//! takes again. There is no timer: a posting that finds a lane idle leaves at once.
//!
//! A mailbox is in at most one lane at a time, so the lanes never wait for each other's locks, and
//! a busy mailbox gathers the bigger batches by itself. What another pod holds is left out and put
//! back; after two tries it goes alone and waits. One bad posting never fails the others of its
//! batch: a batch that fails as a whole is carried out again one by one.

mod lane;
mod queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use self::queue::{Batch, Queue, Ticket, Waiting};
use super::posting::{Posting, Verdict};
use crate::config::Caps;
use crate::error::{Error, Result};
use crate::wakes::{Task, Wakes};

/// Connections that post, beside those of the pool.
pub const LANES: usize = 3;
/// How long a posting may wait to be carried out before its caller is told to try again.
const PATIENCE: Duration = Duration::from_secs(6);
/// How long its caller waits at most: longer than the patience and everything that bounds a lane's tries.
pub const ANSWERED: Duration = Duration::from_secs(30);

/// The way to post. One per pod; cheap to clone.
#[derive(Clone)]
pub struct Poster(Arc<Desk>);

/// What the lanes share.
struct Desk {
    caps: Caps,
    wakes: Wakes,
    queue: Mutex<Queue>,
    /// Rung when there may be something to take.
    bell: Notify,
}

impl Poster {
    /// A poster whose lanes do not run yet: see [`Poster::tasks`].
    pub fn new(caps: Caps, wakes: Wakes) -> Poster {
        Poster(Arc::new(Desk { caps, wakes, queue: Mutex::default(), bell: Notify::new() }))
    }

    /// The lanes: tasks that must not end before `stop`, each with its own connection.
    pub fn tasks(&self, options: &PgConnectOptions, stop: &CancellationToken) -> [Task; LANES] {
        std::array::from_fn(|_| -> Task {
            ("inbox.lane", Box::pin(lane::run(self.0.clone(), options.clone(), stop.clone())))
        })
    }

    /// Carries out one posting, and answers once it is stored for good or surely not. Wakes whoever
    /// waits for its mailboxes.
    ///
    /// Dropping the future does not take the posting back.
    ///
    /// # Errors
    /// `temporarily_unavailable` when it could not be carried out in time, or when too many wait;
    /// with an unknown outcome when the database went away during the commit and stayed away.
    pub async fn post(&self, posting: Posting) -> Result<Verdict> {
        let (answer, verdict) = oneshot::channel();
        let ticket = Ticket { answer, until: Instant::now() + PATIENCE, tries: 0 };
        let waiting = Waiting::new(posting, ticket);
        self.0.queue().push(waiting).map_err(Error::unavailable)?;
        self.0.bell.notify_one();
        match timeout(ANSWERED, verdict).await {
            Ok(Ok(verdict)) => verdict,
            _ => Err(outcome_unknown("a lane did not answer")),
        }
    }
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch, if there is one; another lane is told when more waits.
    fn take(&self) -> Option<Batch> {
        let mut queue = self.queue();
        let batch = queue.take(Instant::now());
        if batch.is_some() && queue.has_any() {
            self.bell.notify_one();
        }
        batch
    }
}

fn outcome_unknown(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Unavailable { outcome_unknown: true, source: cause.into() }
}
