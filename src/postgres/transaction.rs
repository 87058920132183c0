//! How a transaction begins and ends, and the truth about a commit whose answer was lost.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, PgPool, Row};
use tokio::time::{Instant, sleep, timeout};

use super::pool::{ANSWER, Borrowed, is_lost, silence};

/// How a commit ended.
#[derive(Debug)]
pub enum Ended {
    /// Stored for good. `is_answered`: the connection said so, and is as it was before; otherwise it is
    /// of no use any more.
    Committed {
        /// Whether the connection's own answer came.
        is_answered: bool,
    },
    /// Nothing was stored; the same work may be tried again.
    Aborted(sqlx::Error),
    /// The database stayed away: nobody knows yet.
    Unknown(sqlx::Error),
}

/// How long to look for the fate of a commit whose answer was lost.
const LOOK_FOR: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// One look, connecting included.
const LOOK: Duration = Duration::from_secs(1);

/// Postgres' id of a transaction, to ask for its fate when a commit's answer is lost.
pub struct Xid {
    /// As text.
    pub id: String,
    /// The life of the server that gave it: after a crash it may give ids again that it had not written down.
    pub life: Life,
}

/// One life of the server, which none of its sessions outlives: see [`life()`]. An operator who sets the statistics
/// back begins another for sessions opened from then on; what the older ones lose the answer of is not looked up.
pub type Life = Arc<str>;

/// A new text with each start of the server, and with each recovery from a crash of one of its processes, which
/// sets the statistics back and leaves the postmaster as it was.
macro_rules! life {
    () => {
        "concat(pg_postmaster_start_time(), ' ', pg_stat_get_bgwriter_stat_reset_time())"
    };
}

/// Begins on a bare connection, in one round trip. When anything behind this fails in a way that
/// leaves the connection's state in doubt, whoever owns it closes it.
pub async fn begin(db: &mut PgConnection) -> sqlx::Result<Xid> {
    let begin =
        sqlx::raw_sql(concat!("begin; select ", life!(), ", pg_current_xact_id()::text")).fetch_one(db);
    let row = timeout(ANSWER, begin).await.unwrap_or(Err(silence()))?;
    Ok(Xid { life: row.try_get::<String, _>(0)?.into(), id: row.try_get(1)? })
}

/// Begins as [`begin`] does, for less: by who asks for the transaction's id in a statement of its own, and
/// knows the life of the server that its session is of.
pub async fn begin_unnamed(db: &mut PgConnection) -> sqlx::Result<()> {
    timeout(ANSWER, sqlx::raw_sql("begin").execute(db)).await.unwrap_or(Err(silence()))?;
    Ok(())
}

/// Makes it durable. When the answer is lost, or does not come, looks again on another connection
/// and tells the truth.
pub async fn commit(db: &mut PgConnection, xid: &Xid, options: &PgConnectOptions) -> Ended {
    let answer = timeout(ANSWER, sqlx::raw_sql("commit").execute(db)).await;
    match answer.unwrap_or(Err(silence())) {
        Ok(_) => Ended::Committed { is_answered: true },
        Err(error @ sqlx::Error::Database(_)) if !is_lost(&error) => Ended::Aborted(error),
        // Boxed: the way of one in a million need not stand in every commit's future.
        Err(error) => Box::pin(look_for_fate(options, xid, error)).await,
    }
}

/// Undoes it, and tells whether the connection is as it was before.
pub async fn rollback(db: &mut PgConnection) -> bool {
    matches!(timeout(ANSWER, sqlx::raw_sql("rollback").execute(db)).await, Ok(Ok(_)))
}

/// An open transaction on a connection of the pool.
///
/// Dropped without an end (a panic, say), it closes the connection: the next
/// borrower can never inherit somebody's half-done work.
pub struct Transaction {
    connection: Borrowed,
    xid: Xid,
}

impl Transaction {
    /// Borrows a connection and begins.
    pub async fn begin(pool: &PgPool) -> sqlx::Result<Transaction> {
        let mut connection = Borrowed::from(pool).await?;
        let xid = begin(connection.db()?).await?;
        Ok(Transaction { connection, xid })
    }

    /// The connection, to run statements on.
    pub fn connection(&mut self) -> sqlx::Result<&mut PgConnection> {
        self.connection.db()
    }

    /// Makes it durable; see [`commit`].
    pub async fn commit(mut self, pool: &PgPool) -> Ended {
        let Ok(db) = self.connection.db() else { return Ended::Aborted(sqlx::Error::PoolClosed) };
        let ended = commit(db, &self.xid, &pool.connect_options()).await;
        if matches!(ended, Ended::Committed { is_answered: true }) {
            self.connection.release();
        }
        ended
    }

    /// Undoes it.
    pub async fn rollback(mut self) {
        let Ok(db) = self.connection.db() else { return };
        if rollback(db).await {
            self.connection.release();
        }
    }
}

/// Asks the database what became of the transaction, and forces an answer.
///
/// `in progress` means that the old session has not noticed the broken connection
/// (a black hole, say): it is ended, which leaves the transaction either committed
/// or aborted, never later the one and now the other.
async fn look_for_fate(options: &PgConnectOptions, xid: &Xid, error: sqlx::Error) -> Ended {
    let until = Instant::now() + LOOK_FOR;
    while Instant::now() < until {
        match timeout(LOOK, look(options, xid)).await {
            Ok(Ok(Fate::Committed)) => return Ended::Committed { is_answered: false },
            Ok(Ok(Fate::Aborted)) => return Ended::Aborted(error),
            Ok(Ok(Fate::Forgotten)) => return Ended::Unknown(error),
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
    /// The server has begun another life: it cannot be asked about what it gave in the one before.
    Forgotten,
}

/// Looks once, on a connection of its own: those of the pool may all have gone the same way.
async fn look(options: &PgConnectOptions, xid: &Xid) -> sqlx::Result<Fate> {
    let mut db = PgConnection::connect_with(options).await?;
    if life(&mut db).await? != xid.life {
        return Ok(Fate::Forgotten);
    }
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

/// The life of the server that this session is of.
pub async fn life(db: &mut PgConnection) -> sqlx::Result<Life> {
    let life: String =
        sqlx::query_scalar(concat!("-- transaction.life\n select ", life!())).fetch_one(db).await?;
    Ok(life.into())
}

async fn fate(db: &mut PgConnection, xid: &Xid) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("-- transaction.fate\n select pg_xact_status($1::text::xid8)")
        .bind(&xid.id)
        .fetch_one(db)
        .await
}

/// A session that waits for a synchronous standby is left alone: ended, it would count as
/// committed without being safe there.
async fn end_session_of(db: &mut PgConnection, xid: &Xid) -> sqlx::Result<()> {
    sqlx::query(
        "-- transaction.end_session
         select pg_terminate_backend(pid) from pg_stat_activity
         where backend_xid = $1::text::xid8::xid and wait_event is distinct from 'SyncRep'",
    )
    .bind(&xid.id)
    .execute(db)
    .await?;
    Ok(())
}
