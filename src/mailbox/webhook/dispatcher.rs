//! Finds webhooks that are due, on every pod, and lets none of them wait for another.
//!
//! A claim leases rows with a fence and leaves out what somebody else is at. A host gets so many calls at once and no
//! more; endpoints that failed share a part of the places, so that slow ones never keep the others waiting.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::delivery::{Courier, Due, LEASE};
use crate::call::{Dispatch, Result};
use crate::error::cause;
use crate::postgres::pool;

/// Calls of this pod under way at once.
const MOST: usize = 1_024;
/// How many of them may go to endpoints that failed before.
const MOST_FAILING: usize = 256;
/// How many may go to one host.
const MOST_PER_HOST: usize = 32;
/// How many due rows a claim looks at.
const WINDOW: i64 = 2_000;
/// Connections for this alone.
const CONNECTIONS: u32 = 4;
/// Claims come at least so far apart: what became due meanwhile goes together.
const HOLD_OFF: Duration = Duration::from_millis(5);
/// How often to look although nobody rang.
const EVERY: Duration = Duration::from_secs(2);
/// How long calls under way are waited for at the end. What is cut is done again by another pod.
const GRACE: Duration = Duration::from_secs(2);

/// Tells endpoints of mail until `stop`.
pub async fn run(dispatch: Arc<Dispatch>, options: PgConnectOptions, stop: CancellationToken) {
    // What is lost with the server is told again: nobody need wait for its disk.
    let pool = pool::open(options.options([("synchronous_commit", "off")]), CONNECTIONS);
    let wakes = dispatch.wakes.clone();
    let courier = Courier {
        pool: pool.clone(),
        egress: dispatch.egress.clone(),
        terms: dispatch.terms.clone(),
        poster: dispatch.poster.clone(),
    };
    let mut desk =
        Desk { courier, running: JoinSet::new(), hosts: HashMap::new(), failing: 0, has_news: false };
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        if !desk.has_news {
            tokio::select! {
                () = wakes.webhooks_due() => {}
                _ = tick.tick() => {}
                Some(done) = desk.running.join_next() => desk.ended(done),
                () = stop.cancelled() => break,
            }
        }
        desk.has_news = false;
        let next = Instant::now() + HOLD_OFF;
        if let Err(error) = desk.claim(&pool).await {
            tracing::warn!(cause = %cause::plain(&error), "webhooks that are due could not be looked for; trying again");
        }
        desk.gather(next).await;
    }
    let _ = timeout(GRACE, async { while desk.running.join_next().await.is_some() {} }).await;
}

struct Desk {
    courier: Courier,
    running: JoinSet<Ended>,
    hosts: HashMap<String, usize>,
    failing: usize,
    /// Calls ended since the last claim: their rows may be due again, and there are places.
    has_news: bool,
}

/// A call that is over, and the places it took.
struct Ended {
    authority: String,
    was_failing: bool,
}

impl Desk {
    /// Leases what there is a place for, and begins the calls.
    async fn claim(&mut self, pool: &PgPool) -> Result<()> {
        let free = MOST.saturating_sub(self.running.len());
        if free == 0 {
            return Ok(());
        }
        let failing = MOST_FAILING.saturating_sub(self.failing);
        for due in claim(pool, &self.hosts, failing, free).await? {
            self.begin(due);
        }
        Ok(())
    }

    fn begin(&mut self, due: Due) {
        *self.hosts.entry(due.authority.clone()).or_default() += 1;
        self.failing += usize::from(due.is_failing);
        let courier = self.courier.clone();
        self.running.spawn(async move {
            let work = AssertUnwindSafe(courier.carry_out(&due)).catch_unwind();
            match timeout(LEASE, work).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error))) => {
                    tracing::warn!(cause = %cause::plain(&error), "a webhook's call could not be written down");
                }
                Ok(Err(_)) => tracing::error!("a webhook's call panicked"),
                Err(_) => tracing::warn!("a webhook's call outlived its lease"),
            }
            Ended { authority: due.authority, was_failing: due.is_failing }
        });
    }

    fn ended(&mut self, ended: std::result::Result<Ended, tokio::task::JoinError>) {
        self.has_news = true;
        let Ok(Ended { authority, was_failing }) = ended else { return };
        self.failing -= usize::from(was_failing);
        if let Some(count) = self.hosts.get_mut(&authority) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&authority);
            }
        }
    }

    /// Takes note of what ends until `next`.
    async fn gather(&mut self, next: Instant) {
        loop {
            tokio::select! {
                Some(done) = self.running.join_next() => self.ended(done),
                () = sleep_until(next) => return,
            }
        }
    }
}

/// Leases at most `most` webhooks that are due, no more of a host than it has places and at most `failing` of those
/// that failed before, those due longest first.
async fn claim(
    pool: &PgPool,
    hosts: &HashMap<String, usize>,
    failing: usize,
    most: usize,
) -> sqlx::Result<Vec<Due>> {
    let names: Vec<String> = hosts.keys().cloned().collect();
    let places: Vec<i32> = hosts.values().map(|taken| MOST_PER_HOST.saturating_sub(*taken) as i32).collect();
    let rows = pool::idempotent(pool, |db| {
        let query = sqlx::query(CLAIM)
            .bind(names.clone())
            .bind(places.clone())
            .bind(failing as i64)
            .bind(MOST_PER_HOST as i32)
            .bind(WINDOW)
            .bind(most as i64)
            .bind(LEASE);
        Box::pin(query.fetch_all(db))
    });
    rows.await?.iter().map(Due::read).collect()
}

/// The lease's end stands in `due_at` as well: if this pod dies, the row is due again then.
const CLAIM: &str = "-- webhook.claim
    with taken as (
        select * from unnest($1::text[], $2::int[]) as t(authority, places)
    ), near as (
        select w.org_id, w.agent_id, w.authority, w.due_at, w.state = 'failing' as is_failing from webhook w
        where w.due_at <= now() and (w.lease_until is null or w.lease_until <= now())
          and w.authority <> all (select authority from taken where places = 0) and ($3 > 0 or w.state <> 'failing')
        order by w.due_at limit $5
    ), ranked as (
        select n.*, row_number() over (partition by n.authority order by n.due_at) as place,
            row_number() over (partition by n.is_failing order by n.due_at) as place_of_kind
        from near n
    ), chosen as (
        select w.org_id, w.agent_id
        from ranked r left join taken t on t.authority = r.authority
        join webhook w on w.org_id = r.org_id and w.agent_id = r.agent_id
        where r.place <= coalesce(t.places, $4) and (not r.is_failing or r.place_of_kind <= $3)
          and w.due_at <= now() and (w.lease_until is null or w.lease_until <= now())
        order by r.due_at limit $6 for no key update of w skip locked
    )
    update webhook w set lease = gen_random_uuid(), lease_until = now() + $7, due_at = now() + $7
    from chosen c, organization o
    where w.org_id = c.org_id and w.agent_id = c.agent_id and o.org_id = w.org_id
    returning w.org_id, w.agent_id, w.authority, w.url, w.sealed_secret, w.challenge, w.activation, w.state,
        w.announced_seq, w.failures, w.lease, o.slug,
        coalesce(w.failing_since < now() - interval '5 days', false) as is_given_up";
