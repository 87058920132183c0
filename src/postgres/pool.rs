//! Connections: how sessions are set up, and the pod's pool.

use std::pin::Pin;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::time::timeout;

/// How long a call waits for a connection before it is told to try again.
pub const ACQUIRE: Duration = Duration::from_secs(5);
/// How long a short statement is waited for before its connection is given up as a black hole.
pub const ANSWER: Duration = Duration::from_secs(5);
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

/// What a connection died of that answers nothing and does not break either.
pub fn silence() -> sqlx::Error {
    sqlx::Error::Protocol("the database did not answer in time".into())
}

/// A connection of the pool, closed when this is dropped: it goes back only when its
/// borrower says that it is as it was.
pub struct Borrowed(Option<PoolConnection<Postgres>>);

impl Borrowed {
    /// Waits for a connection, no longer than the pool lets callers wait.
    pub async fn from(pool: &PgPool) -> sqlx::Result<Borrowed> {
        // Boxed: the driver's future is 14 KB, and would stand in every future that may come here.
        Ok(Borrowed(Some(Box::pin(pool.acquire()).await?)))
    }

    /// The connection.
    pub fn db(&mut self) -> sqlx::Result<&mut PgConnection> {
        self.0.as_deref_mut().ok_or(sqlx::Error::PoolClosed)
    }

    /// Gives it back to the pool, which asks it for a sign of life first. The driver would wait
    /// for that without end, with the connection's place in the pool taken.
    #[expect(clippy::disallowed_methods, reason = "the driver's own task for this, but with an end")]
    pub fn release(mut self) {
        if let Some(mut connection) = self.0.take() {
            tokio::spawn(timeout(ANSWER, connection.return_to_pool()));
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(mut connection) = self.0.take() {
            connection.close_on_drop();
        }
    }
}

/// One statement on a connection of the pool that may run twice; on another one as long as the connection is
/// found gone. One that broke while it lay in the pool is found out by who uses it next, and each attempt
/// takes one of them out.
///
/// # Errors
/// Those of `run`, and [`silence`].
pub async fn idempotent<T>(
    pool: &PgPool,
    run: impl Fn(&mut PgConnection) -> Running<'_, T>,
) -> sqlx::Result<T> {
    let mut losses = 0;
    loop {
        let mut connection = Borrowed::from(pool).await?;
        match timeout(ANSWER, run(connection.db()?)).await.unwrap_or_else(|_| Err(silence())) {
            Ok(found) => {
                connection.release();
                return Ok(found);
            }
            Err(error) if is_lost(&error) && losses < pool.options().get_max_connections() => losses += 1,
            Err(error) => return Err(error),
        }
    }
}

/// A statement under way.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = sqlx::Result<T>> + Send + 'a>>;
