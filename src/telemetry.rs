//! Logs to standard error and metrics for `/metrics`: names, meanings and the one installation.
//!
//! Metric labels hold only words of a small fixed set (tool names, route templates, states): never an
//! identifier, a credential or a path as it was asked for.

use std::any::Any;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

/// Calls of tools. Labels: `tool`, `outcome` (ok, or the error's code).
pub const CALLS: &str = "waypost_calls_total";
/// Seconds a call of a tool took, waiting included. Label: `tool`.
pub const CALL_SECONDS: &str = "waypost_call_seconds";
/// Requests answered, at either listener. Labels: `route` (the template, or `unmatched`), `status`.
pub const HTTP_REQUESTS: &str = "waypost_http_requests_total";
/// Connections open now.
pub const HTTP_CONNECTIONS: &str = "waypost_http_connections";
/// Reads and streams held now.
pub const HELD_READS: &str = "waypost_held_reads";
/// Messages stored for a recipient.
pub const MESSAGES_POSTED: &str = "waypost_messages_posted_total";
/// Postings carried out in one transaction.
pub const POSTED_TOGETHER: &str = "waypost_posted_together";
/// Sleepers woken. Label: `source` (local, notified, swept).
pub const WAKES: &str = "waypost_wakes_total";
/// Notices of webhooks. Label: `outcome` (told, failed, given_up).
pub const NOTICES: &str = "waypost_webhook_notices_total";
/// Database connections of the pool. Label: `state` (idle, busy).
pub const POOL_CONNECTIONS: &str = "waypost_pool_connections";

/// Upper bounds of [`CALL_SECONDS`]; the last ones are for held reads.
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

/// Upper bounds of [`POSTED_TOGETHER`].
const TOGETHER: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// How often finished samples are folded into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// The metrics of this process.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Everything counted so far, in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Keeps the memory of timings flat when nobody scrapes. Runs for ever: give it to the pod's tracker.
    pub async fn upkeep(&self) {
        let mut tick = tokio::time::interval(UPKEEP);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.0.run_upkeep();
        }
    }
}

/// Installs logs and metrics for the process, once: a later call changes nothing and gives the same metrics.
///
/// `filter` has the syntax of `RUST_LOG`; what cannot be read of it is left out. Logs are JSON lines unless
/// standard error is a terminal.
pub fn install(filter: &str) -> Metrics {
    static INSTALLED: OnceLock<Metrics> = OnceLock::new();
    INSTALLED
        .get_or_init(|| {
            install_logs(filter);
            install_metrics()
        })
        .clone()
}

/// The driver tells of Postgres' notices and of connections that a stop ends: no news to an operator, unless
/// the filter asks for it.
const QUIET: &str = "sqlx::postgres::notice=warn,sqlx_core::pool=error";

fn install_logs(filter: &str) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("{QUIET},{filter}")))
        .with_writer(std::io::stderr)
        .with_target(true);
    // The host of an in-process pod may have its own subscriber already; then that one is used.
    let _ = if std::io::stderr().is_terminal() {
        lines.try_init()
    } else {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_ansi(false)
            .try_init()
    };
}

/// Has the panics of this process logged, each with its place. For the program: another host of a pod has its own way.
///
/// A message made at run time is left out, since it may quote what a client sent: the standard library quotes a text
/// that is cut amid a character, and a key may stand in it.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, said = written(panic.payload()), "a panic");
    }));
}

/// What is written in the source of a panic; what was made at run time is another type.
fn written(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("(left out: made at run time)")
}

fn install_metrics() -> Metrics {
    let builder = PrometheusBuilder::new();
    // The only refusal is an empty list of buckets; the constant has some.
    let builder = builder
        .set_buckets_for_metric(Matcher::Full(CALL_SECONDS.to_owned()), SECONDS)
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Full(POSTED_TOGETHER.to_owned()), TOGETHER)
        })
        .unwrap_or_else(|_| PrometheusBuilder::new());
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    // Likewise: a recorder of the host stays, and ours renders what it was told, which is nothing.
    let _ = metrics::set_global_recorder(recorder);
    describe();
    Metrics(handle)
}

fn describe() {
    describe_counter!(CALLS, "Calls of tools, by tool and outcome");
    describe_histogram!(CALL_SECONDS, Unit::Seconds, "Seconds a call of a tool took, waiting included");
    describe_counter!(HTTP_REQUESTS, "Requests answered at either listener, by route and status");
    describe_counter!(NOTICES, "Notices of webhooks, by outcome");
    describe_gauge!(HTTP_CONNECTIONS, "Connections open now");
    describe_gauge!(HELD_READS, "Reads and streams held now");
    describe_counter!(MESSAGES_POSTED, "Messages stored for a recipient");
    describe_histogram!(POSTED_TOGETHER, "Postings carried out in one transaction");
    describe_counter!(WAKES, "Sleepers woken, by what woke them");
    describe_gauge!(POOL_CONNECTIONS, "Database connections of the pool, by state");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_in_the_words_of_the_source_alone() {
        let of = |panic: fn()| *written(&*std::panic::catch_unwind(panic).unwrap_err()) == *"no such place";
        assert!(of(|| panic!("no such place")));
        assert!(!of(|| panic!("{}", String::from("no such place"))));
    }

    #[test]
    fn a_second_installation_gives_the_same_metrics() {
        let first = install("info");
        metrics::counter!(MESSAGES_POSTED).increment(3);
        metrics::histogram!(CALL_SECONDS, "tool" => "who_am_i").record(0.002);
        let text = install("debug").render();
        assert_eq!(text, first.render());
        assert!(text.contains("waypost_messages_posted_total 3"), "{text}");
        assert!(text.contains(r#"waypost_call_seconds_bucket{tool="who_am_i",le="0.0025"} 1"#), "{text}");
    }
}
