//! Where transactions begin and end: nowhere else.

use std::time::Duration;

use sqlx::{Connection, PgConnection, PgPool, Row};
use tokio::time::{Instant, sleep, timeout};

use super::Result;
use crate::postgres::pool::{ANSWER, Borrowed, is_lost, silence};

/// An open transaction on a connection of the pool.
///
/// Dropped without an end (a panic, say), it closes the connection: the next
/// borrower can never inherit somebody's half-done work.
pub struct Transaction {
    connection: Borrowed,
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

/// How long one attempt at a call's work may take. Postgres ends a statement that takes too
/// long by itself and says so; who hears nothing even after this is not connected any more.
pub(super) const ATTEMPT: Duration = Duration::from_secs(20);
/// How long to look for the fate of a commit whose answer was lost.
const LOOK_FOR: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// One look, connecting included.
const LOOK: Duration = Duration::from_secs(1);

impl Transaction {
    /// Borrows a connection and begins, in one round trip.
    pub async fn begin(pool: &PgPool) -> Result<Transaction> {
        let mut connection = Borrowed::from(pool).await?;
        let begin = sqlx::raw_sql("begin; select pg_current_xact_id()::text").fetch_one(connection.db()?);
        let row = timeout(ANSWER, begin).await.unwrap_or(Err(silence()))?;
        let xid = row.try_get(0)?;
        Ok(Transaction { connection, xid })
    }

    /// The connection, to run statements on.
    pub fn connection(&mut self) -> Result<&mut PgConnection> {
        Ok(self.connection.db()?)
    }

    /// Makes it durable. When the answer is lost, or does not come, looks again and tells
    /// the truth.
    pub async fn commit(mut self, pool: &PgPool) -> Ended {
        let Ok(db) = self.connection.db() else { return Ended::Aborted(sqlx::Error::PoolClosed) };
        let answer = timeout(ANSWER, sqlx::raw_sql("commit").execute(db)).await;
        match answer.unwrap_or(Err(silence())) {
            Ok(_) => {
                self.connection.release();
                Ended::Committed
            }
            Err(error @ sqlx::Error::Database(_)) if !is_lost(&error) => Ended::Aborted(error),
            Err(error) => {
                drop(self.connection);
                look_for_fate(pool, &self.xid, error).await
            }
        }
    }

    /// Undoes it.
    pub async fn rollback(mut self) {
        let Ok(db) = self.connection.db() else { return };
        if let Ok(Ok(_)) = timeout(ANSWER, sqlx::raw_sql("rollback").execute(db)).await {
            self.connection.release();
        }
    }
}

/// Asks the database what became of the transaction, and forces an answer.
///
/// `in progress` means that the old session has not noticed the broken connection
/// (a black hole, say): it is ended, which leaves the transaction either committed
/// or aborted, never later the one and now the other.
async fn look_for_fate(pool: &PgPool, xid: &str, error: sqlx::Error) -> Ended {
    let until = Instant::now() + LOOK_FOR;
    while Instant::now() < until {
        match timeout(LOOK, look(pool, xid)).await {
            Ok(Ok(Fate::Committed)) => return Ended::Committed,
            Ok(Ok(Fate::Aborted)) => return Ended::Aborted(error),
            Ok(Ok(Fate::Open) | Err(_)) | Err(_) => {}
        }
        sleep(LOOK_EVERY).await;
    }
    Ended::Unknown(error)
}

enum Fate {
    Committed,
    Aborted,
    Open,
}

/// Looks once, on a connection of its own: those of the pool may all have gone the same way.
async fn look(pool: &PgPool, xid: &str) -> sqlx::Result<Fate> {
    let mut db = PgConnection::connect_with(&pool.connect_options()).await?;
    let fate = match fate(&mut db, xid).await?.as_deref() {
        Some("committed") => Fate::Committed,
        Some("aborted") => Fate::Aborted,
        _ => {
            end_session_of(&mut db, xid).await?;
            Fate::Open
        }
    };
    let _ = db.close().await;
    Ok(fate)
}

async fn fate(db: &mut PgConnection, xid: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("-- transaction.fate\n select pg_xact_status($1::text::xid8)")
        .bind(xid)
        .fetch_one(db)
        .await
}

/// A session that waits for a synchronous standby is left alone: ended, it would count as
/// committed without being safe there.
async fn end_session_of(db: &mut PgConnection, xid: &str) -> sqlx::Result<()> {
    sqlx::query(
        "-- transaction.end_session
         select pg_terminate_backend(pid) from pg_stat_activity
         where backend_xid = $1::text::xid8::xid and wait_event is distinct from 'SyncRep'",
    )
    .bind(xid)
    .execute(db)
    .await?;
    Ok(())
}
