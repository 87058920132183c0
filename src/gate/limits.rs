//! Requests per second: of each credential, and of each network for those that bring none that stands.
//!
//! Counted in this pod's memory, so that a flood never reaches the database: each pod allows the limit over
//! the number of live pods, at least a fifth of it. A key that does not stand counts on the network it came
//! from, so a million guesses are one bucket, and once that is empty further guesses are not looked up. A key
//! that stood lately is counted on itself alone: whoever else is on its network cannot disturb it.

use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use uuid::Uuid;

use super::meter::{Meter, Rate};
use crate::call::{Error, Result};

/// The least share of a pod is the limit over this.
const MOST_SHARES: u32 = 5;
/// What a caller may take at once is what the rate gives in so long.
const WINDOW: Duration = Duration::from_secs(2);

/// The limits of this pod. Cheap to clone.
#[derive(Clone)]
pub struct RateLimits(Arc<Inner>);

struct Inner {
    /// Requests per second and caller, over all pods; 0 = no limit.
    limit: u32,
    /// Pods that share it.
    pods: AtomicU32,
    credentials: Meter<Uuid>,
    networks: Meter<IpNet>,
}

impl RateLimits {
    /// Nobody has called yet, and there is no other pod.
    pub fn new(limit: u32) -> RateLimits {
        let (credentials, networks) = (Meter::default(), Meter::default());
        RateLimits(Arc::new(Inner { limit, pods: AtomicU32::new(1), credentials, networks }))
    }

    /// Shares the limit with the other pods from now on. What callers used up stays used up.
    pub fn share_among(&self, pods: u32) {
        self.0.pods.store(pods.max(1), Ordering::Relaxed);
    }

    /// How many pods share the limit, this one among them.
    pub fn pods(&self) -> u32 {
        self.0.pods.load(Ordering::Relaxed)
    }

    /// `None` = there is no limit.
    fn rate(&self) -> Option<Rate> {
        (self.0.limit > 0).then(|| rate(self.0.limit, self.pods()))
    }
}

fn rate(limit: u32, pods: u32) -> Rate {
    let every = Duration::from_secs(1) * pods.clamp(1, MOST_SHARES) / limit;
    // The least that can be taken at once is one request.
    Rate { every, window: WINDOW.max(every) }
}

/// What one request is counted on. The gate counts, at most once on a credential, and the doors tell the
/// client how it stands.
#[derive(Clone)]
pub struct Tally {
    limits: RateLimits,
    /// The client's network: an IPv4 address or an IPv6 /64.
    pub network: IpNet,
    counted: Arc<Mutex<Option<Counted>>>,
}

/// Whom a request was counted on.
#[derive(Clone, Copy)]
struct Counted {
    on: On,
    /// `None` = there is no limit.
    standing: Option<Standing>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Credential,
    Network,
}

/// How a limited caller stands on this pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Which limit it is: `credential` or `network`.
    pub policy: &'static str,
    /// Requests that can come within [`Standing::window`].
    pub quota: u64,
    /// Seconds in which all of them come back.
    pub window: u64,
    /// Requests that are left now.
    pub remaining: u64,
    /// Seconds until all are back; where none is left, until there is one again.
    pub reset: u64,
}

impl Tally {
    /// Of a request from this network, counted on nobody yet.
    pub fn new(limits: RateLimits, network: IpNet) -> Tally {
        Tally { limits, network, counted: Arc::default() }
    }

    /// Counts the request on a credential that stands, unless it is counted on one already.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn count_on_credential(&self, credential_id: Uuid) -> Result<()> {
        match self.counted().map(|counted| counted.on) {
            Some(On::Credential) => Ok(()),
            _ => self.count(On::Credential, &self.limits.0.credentials, credential_id),
        }
    }

    /// Counts a key that does not stand.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn count_on_network(&self) -> Result<()> {
        self.count(On::Network, &self.limits.0.networks, self.network)
    }

    /// Counts a look-up of what may be a guess on the network, before it is made: who hangs up meanwhile has
    /// made it all the same, and a thousand at once are no more than one after the other.
    ///
    /// # Errors
    /// `rate_limited` while nothing more may come from strangers of this network.
    pub(super) fn guess(&self) -> Result<Guess<'_>> {
        let before = self.counted();
        if before.is_none_or(|counted| counted.on != On::Network) {
            self.count_on_network()?;
        }
        Ok(Guess { tally: self, before })
    }

    /// Whether [`Tally::guess`] would let one more guess pass. Counts nothing.
    pub(super) fn may_guess(&self) -> bool {
        let Some(rate) = self.limits.rate() else { return true };
        self.limits.0.networks.has_one(self.network, rate, Instant::now())
    }

    /// Counts the request on nobody from now on: that it cannot be judged is a fault of ours.
    pub(super) fn waive(&self) {
        self.slot().get_or_insert(Counted { on: On::Network, standing: None });
    }

    /// Counts the request on its network, unless it is counted already: nobody comes in for nothing.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn settle(&self) -> Result<()> {
        match self.counted() {
            Some(_) => Ok(()),
            None => self.count_on_network(),
        }
    }

    /// What to tell the client; `None` where nothing limits it.
    pub fn standing(&self) -> Option<Standing> {
        self.counted()?.standing
    }

    fn count<K: Hash + Eq + Copy>(&self, on: On, meter: &Meter<K>, key: K) -> Result<()> {
        let Some(rate) = self.limits.rate() else {
            *self.slot() = Some(Counted { on, standing: None });
            return Ok(());
        };
        let taken = meter.take(key, rate, Instant::now());
        let standing = match taken {
            Ok(filling) => Standing::allowed(on, rate, filling),
            Err(wait) => Standing::refused(on, rate, wait),
        };
        *self.slot() = Some(Counted { on, standing: Some(standing) });
        taken.map(drop).map_err(|_| limited(standing.reset))
    }

    fn counted(&self) -> Option<Counted> {
        *self.slot()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A look-up that is counted as a guess.
pub(super) struct Guess<'a> {
    tally: &'a Tally,
    before: Option<Counted>,
}

impl Guess<'_> {
    /// It was none: the network gets back what was taken for it.
    pub fn was_none(self) {
        let Tally { limits, network, .. } = self.tally;
        if self.before.is_none_or(|counted| counted.on != On::Network)
            && let Some(rate) = limits.rate()
        {
            limits.0.networks.give_back(*network, rate);
        }
        *self.tally.slot() = self.before;
    }
}

impl Standing {
    fn allowed(on: On, rate: Rate, filling: Duration) -> Standing {
        let remaining = fits(rate.window.saturating_sub(filling), rate.every);
        Standing { remaining, reset: seconds(filling), ..Standing::refused(on, rate, Duration::ZERO) }
    }

    fn refused(on: On, rate: Rate, wait: Duration) -> Standing {
        let policy = match on {
            On::Credential => "credential",
            On::Network => "network",
        };
        let (quota, window) = (fits(rate.window, rate.every), seconds(rate.window));
        Standing { policy, quota, window, remaining: 0, reset: seconds(wait) }
    }
}

fn limited(retry_after: u64) -> Error {
    Error::RateLimited { what: "requests", retry_after }
}

/// How many whole steps go into a time.
fn fits(time: Duration, every: Duration) -> u64 {
    u64::try_from(time.as_nanos() / every.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// Whole seconds, at least one: waiting for less than was said would be refused again.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0 || time.is_zero())
}

#[cfg(test)]
mod tests;
