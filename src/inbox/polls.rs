//! Polls: that agents read their mailboxes. Noted in memory, and written down together.
//!
//! Only an agent's first poll is written in the call itself, since it is what keeps the agent; a pod asks whether
//! it is one when it first sees the agent. Those behind it are written within half a second, so that reading costs
//! no write. A pod that dies takes that half second with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::posting::Mailbox;
use crate::postgres::pool;

/// How often what was noted is written down.
const EVERY: Duration = Duration::from_millis(500);
/// How long a leaving pod tries to write down the last of it.
const FAREWELL: Duration = Duration::from_secs(1);
/// Most polls of one statement.
const TOGETHER: usize = 1_000;
/// Most agents that are remembered to have polled. Of others it is asked again.
const MOST: u64 = 100_000;

/// The polls that this pod has seen. Cheap to clone.
#[derive(Clone)]
pub struct Polls(Arc<Inner>);

struct Inner {
    seen: Cache<Mailbox, ()>,
    writing: tokio::sync::Mutex<()>,
    /// The last poll of each, not known to be written down yet.
    noted: Mutex<HashMap<Mailbox, Noted>>,
}

/// When a mailbox was polled: to be written by the database's clock, and to be shown meanwhile by ours.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Noted {
    at: Instant,
    shown_at: OffsetDateTime,
}

impl Default for Polls {
    fn default() -> Polls {
        Polls(Arc::new(Inner {
            seen: Cache::new(MOST),
            writing: Default::default(),
            noted: Mutex::default(),
        }))
    }
}

impl Polls {
    /// Notes a poll of an agent that is known to have polled before; false for another.
    pub fn note(&self, mailbox: Mailbox, now: OffsetDateTime) -> bool {
        let is_known = self.0.seen.get(&mailbox).is_some();
        if is_known {
            self.keep(mailbox, now);
        }
        is_known
    }

    fn keep(&self, mailbox: Mailbox, now: OffsetDateTime) {
        self.noted().insert(mailbox, Noted { at: Instant::now(), shown_at: now });
    }

    /// Stamps a poll of this mailbox: by a row of its own when it is the agent's first, in the caller's transaction
    /// if it has one; else soon.
    ///
    /// # Errors
    /// Those of the statement; of a foreign key when the agent was removed meanwhile.
    pub async fn stamp(
        &self,
        db: &mut PgConnection,
        mailbox: Mailbox,
        now: OffsetDateTime,
    ) -> sqlx::Result<()> {
        let is_first = write_first(db, mailbox).await?;
        self.0.seen.insert(mailbox, ());
        if !is_first {
            self.keep(mailbox, now);
        }
        Ok(())
    }

    /// Writes down what was noted, every half second and once more at `stop`.
    pub async fn run(self, pool: PgPool, stop: CancellationToken) {
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.write_down(&pool).await,
                () = stop.cancelled() => break,
            }
        }
        if timeout(FAREWELL, self.write_down(&pool)).await.is_err() {
            tracing::debug!("the last polls were not written down");
        }
    }

    /// Writes down what is noted now. What cannot be written is kept for the next time.
    pub async fn write_down(&self, pool: &PgPool) {
        let _alone = self.0.writing.lock().await;
        let noted = self.noted().clone();
        let now = Instant::now();
        let polls: Vec<Poll> = noted.iter().map(|(mailbox, noted)| (*mailbox, now - noted.at)).collect();
        for some in polls.chunks(TOGETHER) {
            let written = pool::idempotent(pool, |db| {
                let some = some.to_vec();
                Box::pin(async move { write(db, &some).await })
            });
            if let Err(error) = written.await {
                tracing::debug!(%error, "polls could not be written down; trying again");
                return;
            }
        }
        self.noted().retain(|mailbox, newest| noted.get(mailbox) != Some(newest));
    }

    /// The last poll of this mailbox that may not be written down yet, by this pod's clock.
    pub fn latest(&self, mailbox: Mailbox) -> Option<OffsetDateTime> {
        self.noted().get(&mailbox).map(|noted| noted.shown_at)
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<Mailbox, Noted>> {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose mailbox was polled, and how long ago.
type Poll = (Mailbox, Duration);

/// Writes an agent's first poll. False for one that has polled before, which is left as it is: claims of one
/// mailbox must not wait for each other's commits.
async fn write_first(db: &mut PgConnection, mailbox: Mailbox) -> sqlx::Result<bool> {
    let written = sqlx::query(
        "-- inbox.first_poll
         insert into poll (org_id, agent_id, first_polled_at, last_polled_at, polled_hour, hours)
         select $1, $2, now, now, extract(epoch from now)::bigint / 3600, b'1'::bit(24)
         from (select clock_timestamp() as now) clock
         where exists (select from agent where org_id = $1 and agent_id = $2)
         on conflict do nothing",
    )
    .bind(mailbox.0)
    .bind(mailbox.1)
    .execute(db)
    .await?;
    Ok(written.rows_affected() > 0)
}

/// In the order of their keys: two pods that meet wait for each other one way only.
async fn write(db: &mut PgConnection, polls: &[Poll]) -> sqlx::Result<()> {
    sqlx::query(
        "-- inbox.stamp_polls
         insert into poll (org_id, agent_id, first_polled_at, last_polled_at, polled_hour, hours)
         select s.org_id, s.agent_id, s.at, s.at, extract(epoch from s.at)::bigint / 3600, b'1'::bit(24)
         from (select org_id, agent_id, clock_timestamp() - make_interval(secs => age) as at
               from unnest($1::uuid[], $2::uuid[], $3::float8[]) as s(org_id, agent_id, age)) s
         where exists (select from agent a where a.org_id = s.org_id and a.agent_id = s.agent_id)
         order by s.org_id, s.agent_id
         on conflict (org_id, agent_id) do update set
            last_polled_at = greatest(poll.last_polled_at, excluded.last_polled_at),
            polled_hour = greatest(poll.polled_hour, excluded.polled_hour),
            hours = (poll.hours >> greatest(0, least(24, excluded.polled_hour - poll.polled_hour))::int)
                | b'1'::bit(24)",
    )
    .bind(polls.iter().map(|((org_id, _), _)| *org_id).collect::<Vec<_>>())
    .bind(polls.iter().map(|((_, agent_id), _)| *agent_id).collect::<Vec<_>>())
    .bind(polls.iter().map(|(_, age)| age.as_secs_f64()).collect::<Vec<_>>())
    .execute(db)
    .await
    .map(drop)
}
