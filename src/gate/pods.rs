//! How many pods serve: each stamps its row every few seconds and counts the fresh ones, all by the database's
//! clock, and shares the limits accordingly.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::RateLimits;
use crate::postgres::pool;

/// How often a pod stamps and counts. One that was not seen for ten seconds is no longer counted.
const EVERY: Duration = Duration::from_secs(4);
/// How long a leaving pod tries to say so. Left unsaid, the others find out by themselves.
const FAREWELL: Duration = Duration::from_secs(1);

/// Keeps `limits` shared until `leaving`, and takes this pod's row away then. The pool is asked for a
/// connection behind nobody's back: callers queue for turns, and a pod under load must not look dead.
pub async fn run(pool: PgPool, limits: RateLimits, leaving: CancellationToken) {
    let pod_id = Uuid::now_v7();
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = leaving.cancelled() => break,
        }
        match pool::idempotent(&pool, |db| Box::pin(stamp(db, pod_id))).await {
            Ok(pods) => limits.share_among(u32::try_from(pods).unwrap_or(u32::MAX)),
            Err(error) => {
                tracing::warn!(%error, "the live pods could not be counted; sharing the limits as before");
            }
        }
    }
    let leave = pool::idempotent(&pool, |db| Box::pin(leave(db, pod_id)));
    if !matches!(timeout(FAREWELL, leave).await, Ok(Ok(()))) {
        tracing::debug!("the pod's row stays; the other pods stop counting it in some seconds");
    }
}

/// Says that this pod is alive, forgets pods that are long gone, and counts those that are alive.
async fn stamp(db: &mut PgConnection, pod_id: Uuid) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "-- pods.stamp
         with gone as (
            delete from live_pod where pod_id in (
                select pod_id from live_pod
                where pod_id <> $1 and seen_at < clock_timestamp() - interval '1 minute'
                for update skip locked)),
         stamped as (
            insert into live_pod (pod_id, seen_at) values ($1, clock_timestamp())
            on conflict (pod_id) do update set seen_at = excluded.seen_at)
         select 1 + count(*) from live_pod
         where pod_id <> $1 and seen_at > clock_timestamp() - interval '10 seconds'",
    )
    .bind(pod_id)
    .fetch_one(db)
    .await
}

async fn leave(db: &mut PgConnection, pod_id: Uuid) -> sqlx::Result<()> {
    sqlx::query("-- pods.leave\n delete from live_pod where pod_id = $1")
        .bind(pod_id)
        .execute(db)
        .await
        .map(drop)
}
