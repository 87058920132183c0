//! A call's way to the database: a connection that is open, or one taken when first needed.

use sqlx::{PgConnection, PgPool};
use tokio::sync::OwnedSemaphorePermit;

use super::carried::InHand;
use super::turns::Turns;
use super::{Error, Result};
use crate::postgres::pool::Borrowed;

/// The connection a running tool works on.
pub struct Db<'a>(Source<'a>);

enum Source<'a> {
    Open(&'a mut PgConnection),
    OnDemand { pool: &'a PgPool, turns: &'a Turns, in_hand: &'a InHand, taken: Option<Taken> },
}

struct Taken {
    connection: Borrowed,
    _turn: OwnedSemaphorePermit,
}

impl<'a> Db<'a> {
    /// One that is open: a transaction's, or a connection for the whole call.
    pub(super) fn open(connection: &'a mut PgConnection) -> Db<'a> {
        Db(Source::Open(connection))
    }

    /// One that takes its turn when it is first asked for, and tells `in_hand` while it is taken.
    pub(super) fn on_demand(pool: &'a PgPool, turns: &'a Turns, in_hand: &'a InHand) -> Db<'a> {
        Db(Source::OnDemand { pool, turns, in_hand, taken: None })
    }

    /// The connection, to run one statement after the other on.
    ///
    /// # Errors
    /// `temporarily_unavailable` when none is to be had in time.
    pub async fn get(&mut self) -> Result<&mut PgConnection> {
        match &mut self.0 {
            Source::Open(connection) => Ok(connection),
            Source::OnDemand { pool, turns, in_hand, taken } => {
                let taken = match taken {
                    Some(taken) => taken,
                    None => {
                        let turn = turns.wait().await?;
                        in_hand.set(true);
                        taken.insert(Taken { connection: Borrowed::from(pool).await?, _turn: turn })
                    }
                };
                Ok(taken.connection.db()?)
            }
        }
    }

    /// Gives a connection that was taken on demand back, as it was. One that may be in the middle of
    /// something is dropped instead, and closed by that.
    pub(super) fn release(&mut self) -> Result<()> {
        match &mut self.0 {
            Source::Open(_) => {
                Err(Error::internal("only a tool that takes its connection on demand gives it back"))
            }
            Source::OnDemand { taken, in_hand, .. } => {
                taken.take().into_iter().for_each(|taken| taken.connection.release());
                in_hand.set(false);
                Ok(())
            }
        }
    }
}
