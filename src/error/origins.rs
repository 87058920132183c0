//! Errors of the database: which pass, which are the caller's fault, which are ours.

use super::Error;

/// Connection failures mean "try again", text Postgres cannot store is the
/// caller's fault, everything else is ours.
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Error {
        let unavailable =
            |error: sqlx::Error| Error::Unavailable { outcome_unknown: false, source: error.into() };
        match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => unavailable(error),
            sqlx::Error::Database(refused) => match refused.code().as_deref() {
                Some("22P05" | "22021") => {
                    Error::invalid("arguments", "text must not hold NUL or broken UTF-8")
                }
                Some(code) if is_passing(code) => unavailable(error),
                _ => Error::Internal(error.into()),
            },
            _ => Error::Internal(error.into()),
        }
    }
}

/// SQLSTATEs that pass by themselves: connections, shutdown and start-up, too many
/// sessions, cancelled waits, collisions, a read-only server after a failover. And a foreign key that
/// fails: what a call refers to it has seen, so it was removed meanwhile, and the next look says so.
fn is_passing(code: &str) -> bool {
    code.starts_with("08")
        || code.starts_with("57P")
        || code.starts_with("53")
        || code.starts_with("40")
        || matches!(code, "23503" | "57014" | "55P03" | "25006" | "25P02" | "25P03")
}
