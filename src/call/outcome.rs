//! What came of a call: counted, timed, and logged where it is ours to repair.

use std::sync::OnceLock;

use metrics::{Counter, Histogram};
use tokio::time::Instant;

use super::{Error, Result};
use crate::error::{QueueFull, cause};
use crate::telemetry;

/// What came of one tool's calls.
pub(super) struct Outcomes {
    tool: &'static str,
    /// Kept: finding a metric by its labels takes longer than counting.
    succeeded: OnceLock<Counter>,
    seconds: OnceLock<Histogram>,
}

impl Outcomes {
    pub(super) fn of(tool: &'static str) -> Outcomes {
        Outcomes { tool, succeeded: OnceLock::new(), seconds: OnceLock::new() }
    }

    /// Counts, times and logs what came of a call.
    pub(super) fn note<T>(&self, began: Instant, outcome: &Result<T>) {
        let tool = self.tool;
        let counter = |word| metrics::counter!(telemetry::CALLS, "tool" => tool, "outcome" => word);
        match outcome {
            Ok(_) => self.succeeded.get_or_init(|| counter("ok")).increment(1),
            Err(error) => {
                counter(error.verdict().0).increment(1);
                log(tool, error);
            }
        }
        let seconds =
            self.seconds.get_or_init(|| metrics::histogram!(telemetry::CALL_SECONDS, "tool" => tool));
        seconds.record(began.elapsed().as_secs_f64());
    }
}

/// Once, here: what callers did wrong is theirs to read, the rest is ours.
pub(super) fn log(tool: &'static str, error: &Error) {
    match error {
        Error::Internal(cause) => {
            tracing::error!(tool, cause = %cause::plain(&**cause), "a call failed for a fault of ours")
        }
        // An overload must not flood the log as well: the metrics tell of it.
        Error::Unavailable { source, .. } if source.is::<QueueFull>() => {
            tracing::debug!(tool, "a call was turned away, since too many wait");
        }
        Error::Unavailable { source, .. } => {
            tracing::warn!(tool, cause = %cause::plain(&**source), "a call could not be carried out");
        }
        refused => tracing::debug!(tool, code = refused.verdict().0, "a call was refused"),
    }
}
