//! The schema: brought up to this version at start, by one pod at a time.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::{Instant, sleep};

use super::pool;

/// What each version of the schema adds. Migrations only add, so an older pod works on a
/// newer schema; and the driver's own lock waits inside Postgres, so it is off: ours is
/// polled, and a waiting pod can be stopped.
pub fn migrations() -> Migrator {
    let mut migrations = sqlx::migrate!();
    migrations.set_ignore_missing(true).set_locking(false);
    migrations
}

/// A number of ours, for the advisory lock that one migrating pod holds.
const LOCK: i64 = 0x7761_7970_6f73_7401;
const POLL: Duration = Duration::from_millis(100);
/// How long a pod waits for another one's migration.
const PATIENCE: Duration = Duration::from_secs(600);

/// Brings the schema up to this version; returns at once when it is there already.
pub async fn migrate(options: &PgConnectOptions) -> Result<(), MigrateError> {
    let patient = options.clone().options([("statement_timeout", "600s"), ("lock_timeout", "10s")]);
    let mut db = PgConnection::connect_with(&patient).await?;
    let until = Instant::now() + PATIENCE;
    while !sqlx::query_scalar::<_, bool>("-- schema.lock\n select pg_try_advisory_lock($1)")
        .bind(LOCK)
        .fetch_one(&mut db)
        .await?
    {
        if Instant::now() > until {
            return Err(MigrateError::Execute(sqlx::Error::PoolTimedOut));
        }
        sleep(POLL).await;
    }
    migrations().run_direct(None, &mut db, false).await?;
    // The session's end gives the lock free.
    db.close().await?;
    Ok(())
}

/// Whether the schema is at least this binary's.
pub async fn is_current(pool: &PgPool) -> sqlx::Result<bool> {
    let newest = migrations().iter().map(|migration| migration.version).max();
    let applied = pool::idempotent(pool, |db| Box::pin(applied(db))).await?;
    Ok(applied >= newest)
}

async fn applied(db: &mut PgConnection) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar("-- schema.version\n select max(version) from _sqlx_migrations where success")
        .fetch_one(db)
        .await
}
