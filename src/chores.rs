//! Work that is nobody's call: each chore runs now and then, on one pod at a time.

use std::pin::Pin;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::call::{Error, Result};
use crate::mailbox::chores as mailbox;
pub use crate::mailbox::webhook::dispatcher as webhooks;

/// How often the chores are looked at.
const EVERY: Duration = Duration::from_secs(60);
/// A number of ours, for the advisory lock of the pod that does the chores.
const LOCK: i64 = 0x7761_7970_6f73_7402;

type Doing<'a> = Pin<Box<dyn Future<Output = Result<u64>> + Send + 'a>>;

/// A chore: one transaction that tidies up at most so many rows, and tells how many.
struct Chore {
    name: &'static str,
    run: for<'a> fn(&'a mut PgConnection) -> Doing<'a>,
}

const CHORES: &[Chore] = &[
    Chore { name: "mailbox.keep_polled_agents", run: |db| Box::pin(mailbox::keep_polled_agents(db)) },
    Chore { name: "mailbox.remove_unpolled_agents", run: |db| Box::pin(mailbox::remove_unpolled_agents(db)) },
    Chore {
        name: "mailbox.forget_idempotency_keys",
        run: |db| Box::pin(mailbox::forget_idempotency_keys(db)),
    },
    Chore { name: "mailbox.forget_ended_runs", run: |db| Box::pin(mailbox::forget_ended_runs(db)) },
    Chore { name: "mailbox.forget_registrations", run: |db| Box::pin(mailbox::forget_registrations(db)) },
];

/// Does the chores until `stop`, on a connection of its own.
pub async fn run(options: PgConnectOptions, stop: CancellationToken) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = round(&options).await {
            tracing::warn!(%error, "the chores could not be done; trying again in a minute");
        }
    }
}

/// Does every chore once, unless another pod is at it.
async fn round(options: &PgConnectOptions) -> Result<()> {
    let mut db = PgConnection::connect_with(options).await?;
    let is_ours = sqlx::query_scalar("-- chores.lock\n select pg_try_advisory_lock($1)")
        .bind(LOCK)
        .fetch_one(&mut db)
        .await?;
    if is_ours {
        for Failure { chore, error } in run_all(&mut db).await {
            tracing::warn!(chore, %error, "a chore could not be done; trying again in a minute");
        }
    }
    // The session's end gives the lock free.
    db.close().await?;
    Ok(())
}

/// A chore that could not be done.
#[derive(Debug)]
pub struct Failure {
    /// Its name.
    pub chore: &'static str,
    /// Why.
    pub error: Error,
}

/// Does every chore until it finds nothing more. One that fails stops no other: gives those.
pub async fn run_all(db: &mut PgConnection) -> Vec<Failure> {
    let mut failures = Vec::new();
    for chore in CHORES {
        match run_out(db, chore).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(chore = chore.name, rows, "a chore tidied up"),
            Err(error) => failures.push(Failure { chore: chore.name, error }),
        }
    }
    failures
}

/// Runs one chore until it finds nothing more.
async fn run_out(db: &mut PgConnection, chore: &Chore) -> Result<u64> {
    let mut rows = 0;
    loop {
        match run_once(db, chore).await? {
            0 => return Ok(rows),
            some => rows += some,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "chores are nobody's call: their runner begins and ends")]
async fn run_once(db: &mut PgConnection, chore: &Chore) -> Result<u64> {
    // Dropped by a chore that fails: the next one's first statement undoes it.
    let mut transaction = db.begin().await?;
    let rows = (chore.run)(&mut transaction).await?;
    transaction.commit().await?;
    Ok(rows)
}
