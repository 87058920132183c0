//! Whether a pod's connections can be had and do what a pod needs of them, asked before it serves.

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, Decode, PgConnection, Postgres, Row, Type};

use super::StartRefused;
use crate::inbox::poster::LANES;

/// Connections of a pod beside those of its pool: the lanes, the listener, the ring, the sweep, the chores, and four of
/// the webhooks.
#[expect(clippy::cast_possible_truncation, reason = "there are three lanes")]
const BESIDE_POOL: u32 = LANES as u32 + 8;
/// Left for operators and their chores.
const RESERVE: u32 = 3;

const SERVER_PROCESS: &str = "-- database.server_process\n select pg_backend_pid()";

/// Checks that sessions are a pod's own: two that are open at once have two server processes, unless somebody
/// in between hands one from the one to the other. Such a pod would never hear of mail.
pub(super) async fn check_own(db: &mut PgConnection, options: &PgConnectOptions) -> Result<(), StartRefused> {
    let first: i32 = ask(db, SERVER_PROCESS).await?;
    let mut other = connect(options).await?;
    let second: i32 = ask(&mut other, SERVER_PROCESS).await?;
    let _ = other.close().await;
    match first == second {
        false => Ok(()),
        true => Err(StartRefused::Setting(
            "DATABASE_URL leads to a connection pooler that shares sessions (transaction or statement mode), and \
             waiting for mail needs sessions of its own: use Postgres' own port, or a pooler in session mode"
                .into(),
        )),
    }
}

/// Tells when the settings of sessions do not arrive, as with a pooler that is told to leave out `options`: then nobody
/// ends the transactions of a pod that stands still.
pub(super) async fn look_for_settings(db: &mut PgConnection) -> Result<(), StartRefused> {
    let ends_idle: bool = ask(
        db,
        "-- database.settings\n select current_setting('idle_in_transaction_session_timeout') <> '0'",
    )
    .await?;
    if !ends_idle {
        tracing::warn!(
            "a pooler keeps the settings of sessions from the database, so a pod that stops may hold up the others: use \
             Postgres' own port, or set idle_in_transaction_session_timeout = '3s', lock_timeout = '10s' and jit = off \
             for the role in DATABASE_URL"
        );
    }
    Ok(())
}

async fn ask<T>(db: &mut PgConnection, query: &'static str) -> Result<T, StartRefused>
where
    T: for<'a> Decode<'a, Postgres> + Type<Postgres>,
{
    // Not prepared: a pooler may have given the name of the statement to somebody else's.
    let row = sqlx::raw_sql(query).fetch_one(db).await;
    row.and_then(|row| row.try_get(0)).map_err(failed)
}

/// Checks that the server has room for a pod's connections; that all pods together have too few is only told.
pub(super) async fn check_room(options: &PgConnectOptions, pool: u32) -> Result<(), StartRefused> {
    let mut db = connect(options).await?;
    let (most, pods): (i32, i64) = sqlx::query_as(
        "-- database.room
         select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
            (select count(*) from live_pod where seen_at > clock_timestamp() - interval '10 seconds')",
    )
    .fetch_one(&mut db)
    .await
    .map_err(failed)?;
    let _ = db.close().await;
    let (most, each) = (i64::from(most), i64::from(pool + BESIDE_POOL));
    let reserve = i64::from(RESERVE);
    if each + reserve > most {
        return Err(StartRefused::Setting(format!(
            "a pod with WAYPOST_POOL={pool} uses {each} connections, and the database has room for {most}: lower \
             WAYPOST_POOL or raise max_connections"
        )));
    }
    let wanted = (pods + 1) * each + reserve;
    if wanted > most {
        tracing::warn!(
            pods = pods + 1,
            wanted,
            most,
            "the database has too few connections for all pods; lower WAYPOST_POOL or raise max_connections"
        );
    }
    Ok(())
}

async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StartRefused> {
    PgConnection::connect_with(options).await.map_err(failed)
}

fn failed(error: sqlx::Error) -> StartRefused {
    crate::error::Error::from(error).into()
}
