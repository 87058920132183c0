//! Follows a mailbox: what waits first, then what comes, for as long as somebody listens.
//!
//! Asleep, a follower holds two bells and a timer: no database connection and no task. Every read is done in
//! a task of its own, and what a read did not give is read again: no gap, no repeat, no other order.

mod summary;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::caller::BAD_AGENT_KEY;
use super::dispatch::{Dispatch, Job};
use super::holds::Hold;
use super::outcome::log;
use super::{Error, Result};
use crate::inbox::envelopes::{self, Page, Place, Reader};
use crate::postgres::pool;
use crate::wakes::{Sleeper, Topic};

pub use summary::{End, Followed};

/// A read that failed, or did not find what was told of, is tried again after this, after twice as long, and so on.
const FIRST_BACK_OFF: Duration = Duration::from_millis(25);
/// But never after longer: whoever waits learns of mail within a second of the database's return.
const LONGEST_BACK_OFF: Duration = Duration::from_millis(500);

/// What a follower has to say.
#[derive(Debug)]
pub enum Frame {
    /// Mail that came, in order.
    Mail(Vec<Told>),
    /// A sign of life.
    Ping,
    /// The last one.
    Ended(End),
}

/// One message, told of.
#[derive(Debug)]
pub struct Told {
    /// Its seq, to go on from.
    pub seq: i64,
    /// The envelope, as JSON.
    pub envelope: String,
}

/// One stream. Dropping it gives everything back.
pub struct Follower {
    dispatch: Arc<Dispatch>,
    tool: &'static str,
    reader: Reader,
    mail: Sleeper,
    revoked: Sleeper,
    draining: CancellationToken,
    place: Place,
    next: Next,
    failures: u32,
    beat: Interval,
    until: Option<Instant>,
    /// Whether the client's cursor was beyond the newest message.
    was_ahead: bool,
    is_over: bool,
    _hold: Hold,
}

/// What brings a follower on.
enum Next {
    /// A read under way.
    Page(BoxFuture<'static, Result<Page>>),
    /// The end of a pause, after a read that failed.
    Pause(Instant),
    /// News.
    News,
}

impl Dispatch {
    /// Subscribes, takes a place among the held reads, begins the call and reads the first page: whatever
    /// refuses a stream does so here. Without `wait` it goes on until the pod drains.
    pub(super) async fn follower(
        self: &Arc<Self>,
        job: &Arc<Job>,
        since: Option<i64>,
        wait: Option<Duration>,
        heartbeat: Duration,
    ) -> Result<Follower> {
        let began = Instant::now();
        let (agent, org) = (job.caller.agent()?, &job.caller.org);
        // Listen before reading: a message stored between the two must still wake us.
        let mail = self.wakes.sleeper(Topic::Mailbox { org_id: org.org_id, agent_id: agent.agent_id });
        let revoked = self.wakes.sleeper(Topic::Credential(agent.credential_id));
        let hold = self.holds.take(org.org_id, agent.agent_id)?;
        self.look(job, None).await?;
        let mut beat = interval_at(began + heartbeat, heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut follower = Follower {
            dispatch: self.clone(),
            tool: job.entry.spec.name,
            reader: Reader { org_id: org.org_id, agent_id: agent.agent_id, root: self.terms.root(org) },
            mail,
            revoked,
            draining: self.draining.clone(),
            place: since.map_or(Place::Unacked { after: 0, head: None }, Place::After),
            next: Next::News,
            failures: 0,
            beat,
            until: wait.map(|wait| began + wait),
            was_ahead: false,
            is_over: false,
            _hold: hold,
        };
        let first = follower.read().await?;
        follower.next = Next::Page(Box::pin(async move { Ok(first) }));
        Ok(follower)
    }
}

impl Follower {
    /// Where a client goes on that has got everything up to here.
    pub fn cursor(&self) -> i64 {
        self.place.cursor()
    }

    /// The next frame; `None` after the last. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if self.is_over {
                return None;
            }
            let (place, until) = (self.place, self.until);
            tokio::select! {
                biased;
                () = self.revoked.moved_beyond(0) => return Some(self.end(End::Revoked)),
                () = self.draining.cancelled() => return Some(self.end(End::Drain)),
                page = page(&mut self.next) => if let Some(frame) = self.take(page) {
                    return Some(frame);
                },
                () = self.mail.moved_beyond(place.cursor()), if matches!(self.next, Next::News) => {
                    self.next = Next::Page(self.read());
                }
                () = over(until) => return Some(self.end(End::Timeout)),
                _ = self.beat.tick() => return Some(Frame::Ping),
            }
        }
    }

    fn end(&mut self, end: End) -> Frame {
        self.is_over = true;
        Frame::Ended(end)
    }

    /// Takes what a read came to, or the end of a pause. The place moves only by what was read.
    fn take(&mut self, page: Option<Result<Page>>) -> Option<Frame> {
        let page = match page {
            Some(Ok(page)) => page,
            // The agent was removed, and its keys with it.
            Some(Err(Error::Unauthorized(_))) => return Some(self.end(End::Revoked)),
            Some(Err(error)) => {
                if self.failures == 0 {
                    log(self.tool, &error);
                }
                self.pause();
                return None;
            }
            None => {
                self.next = Next::Page(self.read());
                return None;
            }
        };
        self.place = page.place;
        self.mail.has_read_to(self.cursor());
        let has_come = !page.envelopes.is_empty();
        match self.mail.newest() > self.cursor() && !has_come && !page.has_more {
            // Told of, and not there: a commit that did not happen after all. The next message will be that one,
            // and nobody will tell of it again.
            true => self.pause(),
            false => self.failures = 0,
        }
        if self.failures == 0 {
            self.next = if page.has_more { Next::Page(self.read()) } else { Next::News };
        }
        if page.was_ahead {
            self.was_ahead = true;
            return Some(Frame::Ping);
        }
        has_come.then(|| Frame::Mail(page.envelopes.into_iter().map(told).collect()))
    }

    /// The mail that was not read is still there, so it is looked for again, not only at the next news.
    fn pause(&mut self) {
        let longest = FIRST_BACK_OFF.saturating_mul(1 << self.failures.min(10)).min(LONGEST_BACK_OFF);
        self.failures += 1;
        self.next = Next::Pause(Instant::now() + jittered(longest / 2, longest));
    }

    fn read(&self) -> BoxFuture<'static, Result<Page>> {
        let (dispatch, reader, place) = (self.dispatch.clone(), self.reader.clone(), self.place);
        Box::pin(async move {
            let pool = dispatch.pool.clone();
            let reading = async move {
                let reader = &reader;
                pool::idempotent(&pool, |db| {
                    let reader = reader.clone();
                    Box::pin(async move { envelopes::read(db, &reader, place).await })
                })
                .await
            };
            dispatch.turns.take(reading).await??.ok_or(Error::Unauthorized(BAD_AGENT_KEY))
        })
    }
}

fn told((seq, envelope): (i64, envelopes::Envelope)) -> Told {
    // Plain fields and text: it always is JSON.
    Told { seq, envelope: serde_json::to_string(&envelope).unwrap_or_default() }
}

/// The page once it is read, or `None` once the pause is over; never when news is waited for.
async fn page(next: &mut Next) -> Option<Result<Page>> {
    match next {
        Next::Page(reading) => Some(reading.await),
        Next::Pause(until) => {
            sleep_until(*until).await;
            None
        }
        Next::News => std::future::pending().await,
    }
}

async fn over(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Some time between two: who failed or was sent away together does not come back together.
pub fn jittered(least: Duration, most: Duration) -> Duration {
    let mut random = [0; 4];
    // Without randomness nothing is jittered, which still works.
    let _ = getrandom::fill(&mut random);
    let share = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
    least + most.saturating_sub(least).mul_f64(share)
}
