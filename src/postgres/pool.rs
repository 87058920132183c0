//! Connections: how sessions are set up, and the pod's pool.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool};

/// How long a call waits for a connection before it is told to try again.
const ACQUIRE: Duration = Duration::from_secs(5);
/// A connection that lay idle for longer is asked whether it still stands.
const FRESH: Duration = Duration::from_secs(1);

/// The session settings of every connection.
///
/// Plans are made once, since every statement here is short and keyed. One made while a table
/// is young must not scan it: it would stay while the table grows. A statement or a transaction
/// that hangs (a stopped pod, a cut network) is ended by the server, so that its locks do not
/// outlive it for long.
pub fn session(options: PgConnectOptions) -> PgConnectOptions {
    options.application_name("waypost").options([
        ("jit", "off"),
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("plan_cache_mode", "force_generic_plan"),
        ("statement_timeout", "15s"),
        ("lock_timeout", "10s"),
        ("idle_in_transaction_session_timeout", "10s"),
    ])
}

/// The pod's pool of `size` connections, none of them opened yet.
pub fn open(options: PgConnectOptions, size: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > FRESH {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(options)
}

/// Whether the session is gone: the connection broke, or the server ended it. Nothing of an
/// open transaction is stored then.
pub fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(refused) => {
            refused.code().is_some_and(|code| code.starts_with("57P") || code.starts_with("08"))
        }
        _ => false,
    }
}

/// Does `read` again as long as it finds its connection gone. One that broke while it lay in
/// the pool is found out by who uses it next, and each attempt takes one of them out.
///
/// # Errors
/// Those of `read`.
pub async fn again_when_lost<T, F>(pool: &PgPool, read: impl Fn() -> F) -> sqlx::Result<T>
where
    F: Future<Output = sqlx::Result<T>>,
{
    let mut losses = 0;
    loop {
        match read().await {
            Err(error) if is_lost(&error) && losses <= pool.options().get_max_connections() => losses += 1,
            done => return done,
        }
    }
}
