//! Turns at the database: one for each connection of the pod's pool, and a queue for them that ends somewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::carried::{Carried, InHand};
use crate::error::{Error, QueueFull, Result};
use crate::postgres::pool::ACQUIRE;

/// Most that may wait for a turn: more would wait in vain, with their arguments in memory. A pod that another
/// one's streams come to all at once takes thousands of short reads, and calls among them.
pub const MOST_WAITING: usize = 4_000;

/// Who works on the pod's connections. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// The work under way: a client that hangs up ends its wait, never a statement half way.
    pub tasks: TaskTracker,
}

impl Turns {
    /// For a pool of so many connections.
    pub fn new(connections: u32) -> Turns {
        let free = Arc::new(Semaphore::new(connections as usize));
        Turns { free, waiting: Arc::default(), tasks: TaskTracker::new() }
    }

    /// Waits for a turn, then does the work. Everybody queues here, not at the pool. A client that hangs up
    /// leaves the queue; work that has begun is carried on in a task of its own.
    ///
    /// # Errors
    /// `temporarily_unavailable` at once when too many wait already ([`QueueFull`]), and when no turn came
    /// in time; `internal_error` when the work panicked.
    pub async fn take<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let turn = self.wait().await?;
        self.work(turn, work).await
    }

    /// The same for who was let in before and has slept since. There are never more of them than reads may
    /// be held, and each is owed an answer: none is turned away for those that came meanwhile.
    ///
    /// # Errors
    /// As for [`Turns::take`], but for the queue.
    pub async fn take_again<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.queue().await?;
        self.work(turn, work).await
    }

    async fn work<T: Send + 'static>(
        &self,
        turn: OwnedSemaphorePermit,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let working = async move {
            let done = work.await;
            drop(turn);
            done
        };
        let in_hand = InHand::default();
        in_hand.set(true);
        self.carry(in_hand, working).await
    }

    /// Does work that takes its turns as it needs them, with something `in_hand` meanwhile. A client that
    /// hangs up ends it where there is nothing.
    ///
    /// # Errors
    /// `internal_error` when the work panicked.
    pub(super) async fn carry<T: Send + 'static>(
        &self,
        in_hand: InHand,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        Carried::new(&self.tasks, in_hand, work).await
    }

    /// Waits for a turn, which lasts as long as what this returns.
    ///
    /// # Errors
    /// `temporarily_unavailable` as for [`Turns::take`].
    pub async fn wait(&self) -> Result<OwnedSemaphorePermit> {
        if self.waiting() >= MOST_WAITING {
            return Err(Error::unavailable(QueueFull));
        }
        self.queue().await
    }

    async fn queue(&self) -> Result<OwnedSemaphorePermit> {
        let place = Place::new(&self.waiting);
        let turn = timeout(ACQUIRE, self.free.clone().acquire_owned()).await;
        drop(place);
        turn.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(Error::internal)
    }

    /// How many wait for a turn now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A place in the queue; given back when dropped.
struct Place<'a>(&'a AtomicUsize);

impl Place<'_> {
    fn new(waiting: &AtomicUsize) -> Place<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Place(waiting)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::pending;

    use super::*;

    /// Turns that are all taken, and a queue that is full.
    fn full() -> (Turns, Vec<impl Future>) {
        let turns = Turns::new(1);
        let mut waiting = Vec::new();
        for _ in 0..=MOST_WAITING {
            let turns = turns.clone();
            let mut work = Box::pin(async move { turns.take(pending::<()>()).await });
            assert!((&mut work).now_or_never().is_none());
            waiting.push(work);
        }
        (turns, waiting)
    }

    #[tokio::test]
    async fn whoever_finds_the_queue_full_is_turned_away_at_once() {
        let (turns, mut waiting) = full();
        assert_eq!(turns.waiting(), MOST_WAITING);
        let refused = turns.take(async {}).now_or_never().expect("at once").unwrap_err();
        assert_eq!(refused.verdict().0, "temporarily_unavailable");
        // One hangs up, and there is a place again.
        waiting.pop();
        assert!(turns.take(async {}).now_or_never().is_none());
    }

    #[tokio::test]
    async fn whoever_was_let_in_before_waits_however_many_do() {
        let (turns, _waiting) = full();
        let mut work = Box::pin(turns.take_again(async {}));
        assert!((&mut work).now_or_never().is_none());
        assert_eq!(turns.waiting(), MOST_WAITING + 1);
        drop(work);
        assert_eq!(turns.waiting(), MOST_WAITING);
    }
}
