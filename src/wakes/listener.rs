//! Hears the other pods, on a connection of its own that is never in a transaction.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio_util::sync::CancellationToken;

use super::{Wakes, ring};

const BACK_OFF: Duration = Duration::from_millis(200);

pub(super) async fn run(wakes: Wakes, options: PgConnectOptions, stop: CancellationToken) {
    loop {
        tokio::select! {
            error = hear(&wakes, &options) => tracing::warn!(%error, "the listener lost its connection; opening another"),
            () = stop.cancelled() => return,
        }
        tokio::time::sleep(BACK_OFF).await;
    }
}

/// Listens until the connection breaks.
async fn hear(wakes: &Wakes, options: &PgConnectOptions) -> sqlx::Error {
    match listen(wakes, options).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn listen(wakes: &Wakes, options: &PgConnectOptions) -> sqlx::Result<std::convert::Infallible> {
    // The driver's listener wants a pool: this one holds its single connection and nothing else.
    let own = PgPoolOptions::new().max_connections(1).min_connections(0).connect_lazy_with(options.clone());
    let mut ear = PgListener::connect_with(&own).await?;
    ear.eager_reconnect(false);
    ear.listen(ring::CHANNEL).await?;
    // What was told while nobody listened is lost: look at once.
    wakes.0.sweep_now.notify_one();
    loop {
        let Some(note) = ear.try_recv().await? else { return Err(sqlx::Error::PoolClosed) };
        for (topic, at) in note.payload().lines().filter_map(ring::parse) {
            wakes.hear(topic, at, "notified");
        }
    }
}
