//! Work that its caller may leave: it is then carried on in a task of its own.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::{Error, Result};

/// Work that runs where it is awaited, and goes on among `tasks` when that is dropped while something
/// is in hand: a statement is never cut off, and nobody pays for a task who waits to the end.
pub(super) struct Carried<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = Result<T>> + Send>>>,
    in_hand: InHand,
    tasks: TaskTracker,
}

/// Whether work holds what must not be dropped half way: a connection.
#[derive(Clone, Default)]
pub(super) struct InHand(Arc<AtomicBool>);

impl InHand {
    pub fn set(&self, is_so: bool) {
        self.0.store(is_so, Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Carried<T> {
    /// The work, as `internal_error` when it panics.
    pub fn new(
        tasks: &TaskTracker,
        in_hand: InHand,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Carried<T> {
        let work = AssertUnwindSafe(work).catch_unwind();
        let work = work.map(|done| done.map_err(|_| Error::internal("a call panicked")));
        Carried { work: Some(Box::pin(work.in_current_span())), in_hand, tasks: tasks.clone() }
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        // Without a runtime the process is at its end, and the connection with it.
        let is_in_hand = self.in_hand.0.load(Ordering::Relaxed) && Handle::try_current().is_ok();
        if let Some(work) = self.work.take().filter(|_| is_in_hand) {
            self.tasks.spawn(work.map(drop));
        }
    }
}
