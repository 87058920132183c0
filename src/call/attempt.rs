//! One call's work on the database, tried again when that is safe and may help.

use std::time::Duration;

use tokio::time::timeout;

use super::carried::InHand;
use super::db::Db;
use super::dispatch::{Dispatch, Job};
use super::registry::Ran;
use super::{Effect, Error, Result};
use crate::inbox::poster::ANSWERED;
use crate::postgres::pool::{Borrowed, is_lost, silence};
use crate::postgres::transaction::{Ended, Transaction};
use crate::telemetry;

/// How long one attempt at a call's work may take. Postgres ends a statement that takes too
/// long by itself and says so; who hears nothing even after this is not connected any more.
const ATTEMPT: Duration = Duration::from_secs(20);
/// How often a call that collided is tried again.
const MOST_COLLISIONS: usize = 3;

impl Dispatch {
    /// Again when Postgres says that two calls collided, when a commit surely did not happen,
    /// or when the connection was lost before it.
    pub(super) async fn attempts(
        &self,
        job: &Job,
        held_for: Option<Duration>,
        in_hand: &InHand,
    ) -> Result<Ran> {
        let (mut collisions, mut losses) = (0, 0);
        // Each attempt takes one dead connection out of the pool, and all of them may be dead.
        let most_losses = self.pool.options().get_max_connections() + 1;
        loop {
            let outcome = match job.entry.spec.effect {
                Effect::Statements => self.read(job, held_for).await,
                Effect::Transaction => self.write(job, held_for).await,
                Effect::Posting | Effect::Outward => self.on_demand(job, in_hand).await,
            };
            match outcome {
                Err(Failed::Collided(_)) if collisions < MOST_COLLISIONS => collisions += 1,
                Err(Failed::Lost(_)) if losses < most_losses => losses += 1,
                Err(Failed::Collided(error) | Failed::Lost(error) | Failed::For(error)) => return Err(error),
                Ok(ran) => return Ok(ran),
            }
        }
    }

    async fn read(&self, job: &Job, held_for: Option<Duration>) -> Result<Ran, Failed> {
        let mut connection = Borrowed::from(&self.pool).await.map_err(Error::from)?;
        let mut call = self.open(job, Db::open(connection.db().map_err(Error::from)?), held_for);
        let ran = in_time(job.command.run(&mut call)).await;
        if !matches!(ran, Err(Error::Unavailable { .. })) {
            connection.release();
        }
        Ok(ran?)
    }

    /// A connection is held while it reads, and none while its posting is carried out or somebody outside is called.
    async fn on_demand(&self, job: &Job, in_hand: &InHand) -> Result<Ran, Failed> {
        let mut call = self.open(job, Db::on_demand(&self.pool, &self.turns, in_hand), None);
        let ran = match timeout(ATTEMPT + ANSWERED, job.command.run(&mut call)).await {
            Ok(ran) => ran,
            Err(_) => Err(Error::Unavailable { outcome_unknown: call.is_posting, source: silence().into() }),
        };
        if !matches!(ran, Err(Error::Unavailable { .. })) {
            call.db.release()?;
        }
        Ok(ran?)
    }

    async fn write(&self, job: &Job, held_for: Option<Duration>) -> Result<Ran, Failed> {
        let mut transaction = Transaction::begin(&self.pool).await.map_err(Error::from)?;
        let mut call = self.open(job, Db::open(transaction.connection().map_err(Error::from)?), held_for);
        let ran = in_time(job.command.run(&mut call)).await;
        let (news, posted) = (call.news, call.posted);
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => {
                transaction.rollback().await;
                return Err(error.into());
            }
        };
        match transaction.commit(&self.pool).await {
            Ended::Committed { .. } => {
                metrics::counter!(telemetry::MESSAGES_POSTED).increment(posted);
                self.wakes.ring(&news);
                Ok(ran)
            }
            Ended::Aborted(error) => Err(Failed::Collided(Error::from(error))),
            Ended::Unknown(error) => {
                // It may be stored: a needless wake costs a read, a missing one a second.
                self.wakes.ring(&news);
                Err(Failed::For(Error::Unavailable { outcome_unknown: true, source: error.into() }))
            }
        }
    }
}

/// How one attempt failed.
enum Failed {
    /// Nothing was stored, and the same attempt may succeed now.
    Collided(Error),
    /// The connection was lost before anything was stored.
    Lost(Error),
    /// For good.
    For(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        let Error::Unavailable { source, outcome_unknown: false } = &error else { return Failed::For(error) };
        match source.downcast_ref() {
            Some(cause) if is_collision(cause) => Failed::Collided(error),
            Some(cause) if is_lost(cause) => Failed::Lost(error),
            _ => Failed::For(error),
        }
    }
}

/// Serialization failures, deadlocks, and foreign keys of what was removed meanwhile.
fn is_collision(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refused| refused.code());
    matches!(code.as_deref(), Some("40001" | "40P01" | "23503"))
}

/// The work of one attempt. When nothing comes of it in time, the connection is a black hole.
async fn in_time(work: impl Future<Output = Result<Ran>>) -> Result<Ran> {
    timeout(ATTEMPT, work).await.unwrap_or_else(|_| Err(silence().into()))
}
