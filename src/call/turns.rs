//! Turns at the database: one for each connection of the pod's pool.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::{Error, Result};
use crate::postgres::pool::ACQUIRE;

/// Who works on the pod's connections. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    free: Arc<Semaphore>,
    /// The work under way: a client that hangs up ends its wait, never a statement half way.
    pub tasks: TaskTracker,
}

impl Turns {
    /// For a pool of so many connections.
    pub fn new(connections: u32) -> Turns {
        Turns { free: Arc::new(Semaphore::new(connections as usize)), tasks: TaskTracker::new() }
    }

    /// Waits for a turn, then does the work in a task of its own. Everybody queues here, not at the
    /// pool, and a client that hangs up leaves the queue.
    ///
    /// # Errors
    /// `temporarily_unavailable` when no turn came in time; `internal_error` when the work panicked.
    pub async fn take<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let turn = self.wait().await?;
        let working = async move {
            let done = work.await;
            drop(turn);
            done
        };
        self.detach(working).await
    }

    /// Does work in a task of its own that takes its turns as it needs them. A client that hangs up
    /// takes nothing back.
    ///
    /// # Errors
    /// `internal_error` when the work panicked.
    pub async fn detach<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.tasks.spawn(work.in_current_span()).await.map_err(Error::internal)
    }

    /// Waits for a turn, which lasts as long as what this returns.
    ///
    /// # Errors
    /// `temporarily_unavailable` when none came in time.
    pub async fn wait(&self) -> Result<OwnedSemaphorePermit> {
        let turn = timeout(ACQUIRE, self.free.clone().acquire_owned()).await;
        turn.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(Error::internal)
    }
}
