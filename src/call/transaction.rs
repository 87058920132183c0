//! Where transactions begin and end: nowhere else.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres, Row};
use tokio::time::Instant;

use super::{Error, Result};

/// An open transaction on a connection of the pool.
///
/// Dropped without an end (a panic, say), it closes the connection: the next
/// borrower can never inherit somebody's half-done work.
pub struct Transaction {
    connection: Option<PoolConnection<Postgres>>,
    /// Postgres' id of this transaction, to ask for its fate when a commit's answer is lost.
    xid: String,
}

/// How a commit ended.
#[derive(Debug)]
pub enum Ended {
    /// Stored for good.
    Committed,
    /// Nothing was stored; the same work may be tried again.
    Aborted(sqlx::Error),
    /// The database stayed away: nobody knows yet.
    Unknown(sqlx::Error),
}

/// How long to look for the fate of a commit whose answer was lost.
const LOOK_FOR: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Transaction {
    /// Borrows a connection and begins, in one round trip.
    pub async fn begin(pool: &PgPool) -> Result<Transaction> {
        let mut connection = CloseOnDrop(Some(pool.acquire().await?));
        let db = connection.0.as_mut().ok_or_else(|| Error::internal("no connection"))?;
        let row = sqlx::raw_sql("begin; select pg_current_xact_id()::text").fetch_one(&mut **db).await?;
        let xid = row.try_get(0)?;
        Ok(Transaction { connection: connection.0.take(), xid })
    }

    /// The connection, to run statements on.
    pub fn connection(&mut self) -> Result<&mut PgConnection> {
        self.connection.as_deref_mut().ok_or_else(|| Error::internal("the transaction has ended"))
    }

    /// Makes it durable. When the answer is lost, looks again and tells the truth.
    pub async fn commit(mut self, pool: &PgPool) -> Ended {
        let mut connection = CloseOnDrop(self.connection.take());
        let Some(db) = connection.0.as_mut() else { return Ended::Aborted(sqlx::Error::PoolClosed) };
        match sqlx::raw_sql("commit").execute(&mut **db).await {
            Ok(_) => {
                drop(connection.0.take());
                Ended::Committed
            }
            Err(error @ sqlx::Error::Database(_)) if !is_lost(&error) => Ended::Aborted(error),
            Err(error) => {
                drop(connection);
                look_for_fate(pool, &self.xid, error).await
            }
        }
    }

    /// Undoes it.
    pub async fn rollback(mut self) {
        let mut connection = CloseOnDrop(self.connection.take());
        if let Some(db) = connection.0.as_mut()
            && sqlx::raw_sql("rollback").execute(&mut **db).await.is_ok()
        {
            drop(connection.0.take());
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        drop(CloseOnDrop(self.connection.take()));
    }
}

/// Closes its connection, unless it was taken out first.
struct CloseOnDrop(Option<PoolConnection<Postgres>>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(mut connection) = self.0.take() {
            connection.close_on_drop();
        }
    }
}

/// Whether an error of the server itself ended the session around the commit.
fn is_lost(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refused| refused.code());
    code.is_some_and(|code| code.starts_with("57P") || code.starts_with("08"))
}

/// Asks the database what became of the transaction, and forces an answer.
///
/// `in progress` means that the old session has not noticed the broken connection
/// (a black hole, say): it is ended, which leaves the transaction either committed
/// or aborted, never later the one and now the other.
async fn look_for_fate(pool: &PgPool, xid: &str, error: sqlx::Error) -> Ended {
    let until = Instant::now() + LOOK_FOR;
    while Instant::now() < until {
        match fate(pool, xid).await.as_deref() {
            Ok("committed") => return Ended::Committed,
            Ok("aborted") => return Ended::Aborted(error),
            Ok(_) => end_session_of(pool, xid).await,
            Err(_) => {}
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ended::Unknown(error)
}

async fn fate(pool: &PgPool, xid: &str) -> sqlx::Result<String> {
    let fate: Option<String> =
        sqlx::query_scalar("-- transaction.fate\n select pg_xact_status($1::text::xid8)")
            .bind(xid)
            .fetch_one(pool)
            .await?;
    Ok(fate.unwrap_or_default())
}

async fn end_session_of(pool: &PgPool, xid: &str) {
    let ended = sqlx::query(
        "-- transaction.end_session
         select pg_terminate_backend(pid) from pg_stat_activity where backend_xid = $1::text::xid8::xid",
    )
    .bind(xid)
    .execute(pool)
    .await;
    if let Err(error) = ended {
        tracing::warn!(%error, "could not end the session of a commit whose answer was lost");
    }
}
