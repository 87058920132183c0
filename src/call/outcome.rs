//! What came of a call: counted, timed, and logged where it is ours to repair.

use tokio::time::Instant;

use super::{Error, Result};
use crate::error::{QueueFull, cause};
use crate::telemetry;

/// Counts, times and logs what came of a call.
pub(super) fn count<T>(name: &'static str, began: Instant, outcome: &Result<T>) {
    let word = outcome.as_ref().map_or_else(|error| error.verdict().0, |_| "ok");
    metrics::counter!(telemetry::CALLS, "tool" => name, "outcome" => word).increment(1);
    metrics::histogram!(telemetry::CALL_SECONDS, "tool" => name).record(began.elapsed().as_secs_f64());
    if let Err(error) = outcome {
        log(name, error);
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
