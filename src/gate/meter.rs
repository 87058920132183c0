//! How fast each of many callers comes: one bucket for each, in bounded memory.
//!
//! The generic cell rate algorithm: a bucket is a single instant, the one at which it will be full again. A
//! request moves it forward by what one request costs, and is refused when that would carry it further ahead
//! than the window. So the cost can change at any time, and what was used up stays used up; and a bucket that
//! is full is as good as none, so there is always one to forget.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Each has a lock of its own.
const SHARDS: usize = 16;
/// Most buckets kept in a shard: 100,000 in all.
const MOST: usize = 100_000 / SHARDS;

/// The buckets of one kind of caller.
pub(super) struct Meter<K> {
    began: Instant,
    spread: RandomState,
    shards: [Mutex<Shard<K>>; SHARDS],
}

/// When each bucket will be full again: the time from [`Meter::began`].
type Shard<K> = HashMap<K, Duration>;

/// How much a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// The time after which one more request is allowed.
    pub every: Duration,
    /// The time in which an empty bucket is full again; what fits in it can come at once.
    pub window: Duration,
}

impl<K> Default for Meter<K> {
    fn default() -> Meter<K> {
        let shards = std::array::from_fn(|_| Mutex::default());
        Meter { began: Instant::now(), spread: RandomState::new(), shards }
    }
}

impl<K: Hash + Eq + Copy> Meter<K> {
    /// Takes one request out of a bucket: how long it will be until it is full.
    ///
    /// # Errors
    /// How long it will be until there is one to take; nothing is taken.
    pub(super) fn take(&self, key: K, rate: Rate, at: Instant) -> Result<Duration, Duration> {
        let at = at.saturating_duration_since(self.began);
        let mut shard = self.shard(&key);
        let full_at = shard.get(&key).map_or(at, |full_at| at.max(*full_at)) + rate.every;
        let filling = full_at - at;
        if filling > rate.window {
            return Err(filling - rate.window);
        }
        if shard.len() >= MOST && !shard.contains_key(&key) {
            make_room(&mut shard, rate, at);
        }
        shard.insert(key, full_at);
        Ok(filling)
    }

    /// Whether there is a request to take.
    pub(super) fn has_one(&self, key: K, rate: Rate, at: Instant) -> bool {
        let at = at.saturating_duration_since(self.began);
        let full_at = self.shard(&key).get(&key).copied().unwrap_or_default();
        at.max(full_at) + rate.every <= at + rate.window
    }

    /// Puts one request back that was taken and not used after all.
    pub(super) fn give_back(&self, key: K, rate: Rate) {
        if let Some(full_at) = self.shard(&key).get_mut(&key) {
            *full_at = full_at.saturating_sub(rate.every);
        }
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K>> {
        #[expect(clippy::cast_possible_truncation, reason = "any of its bits spread the keys")]
        let place = self.spread.hash_one(key) as usize % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many buckets there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }
}

/// Forgets buckets that are full, and when that is not enough those that are nearest to it: a flood of callers
/// seen once gives no caller that is being limited a fresh burst.
fn make_room<K: Hash + Eq>(shard: &mut Shard<K>, rate: Rate, at: Duration) {
    for quarters in 0..=4 {
        shard.retain(|_, full_at| *full_at > at + rate.window * quarters / 4);
        if shard.len() <= MOST / 2 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const RATE: Rate = Rate { every: Duration::from_millis(100), window: Duration::from_secs(2) };

    #[test]
    fn a_burst_is_taken_at_once_and_then_one_request_every_so_often() {
        let meter = Meter::default();
        let began = Instant::now();
        let takes = |at| std::iter::repeat_with(|| meter.take(1, RATE, at)).take_while(Result::is_ok).count();
        assert_eq!(takes(began), 20);
        assert_eq!(meter.take(1, RATE, began), Err(Duration::from_millis(100)));
        meter.give_back(1, RATE);
        assert_eq!(takes(began), 1);
        assert_eq!(takes(began + Duration::from_millis(100)), 1);
        assert_eq!(takes(began + Duration::from_millis(450)), 3);
        assert_eq!(takes(began + Duration::from_secs(60)), 20, "no more than a burst is saved up");
        assert_eq!(meter.take(2, RATE, began), Ok(Duration::from_millis(100)), "another has its own");
    }

    #[test]
    fn a_rate_that_changes_gives_nobody_a_fresh_burst() {
        let meter = Meter::default();
        let began = Instant::now();
        while meter.take(1, RATE, began).is_ok() {}
        let slower = Rate { every: Duration::from_millis(200), ..RATE };
        assert_eq!(meter.take(1, slower, began), Err(Duration::from_millis(200)));
        let faster = Rate { every: Duration::from_millis(50), ..RATE };
        assert_eq!(meter.take(1, faster, began), Err(Duration::from_millis(50)));
    }

    #[test]
    fn racers_share_one_burst() {
        let meter = Meter::default();
        let at = Instant::now();
        let taken = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..20).filter(|_| meter.take(1, RATE, at).is_ok()).for_each(|_| {
                        taken.fetch_add(1, Ordering::Relaxed);
                    });
                });
            }
        });
        assert_eq!(taken.into_inner(), 20);
    }

    /// Bytes that the buckets take, as they are laid out: entries with their spare room, and a byte for each.
    fn bytes<K>(meter: &Meter<K>) -> usize {
        let entry = size_of::<(K, Duration)>() + 1;
        meter.shards.iter().map(|shard| shard.lock().unwrap().capacity() * 8 / 7 * entry).sum()
    }

    #[test]
    fn a_million_callers_at_once_take_the_memory_of_a_hundred_thousand() {
        let meter = Meter::default();
        let mut most = 0;
        for number in 0..1_000_000_u128 {
            meter.take(number, RATE, meter.began).unwrap();
            if number % 10_000 == 0 {
                most = most.max(meter.len());
            }
        }
        assert!((50_000..=100_000).contains(&most), "{most} buckets");
        assert!(bytes(&meter) < 10 << 20, "{} bytes", bytes(&meter));
    }

    #[test]
    fn a_flood_of_callers_seen_once_gives_no_limited_caller_a_fresh_burst() {
        let meter = Meter::default();
        let at = meter.began;
        while meter.take(0, RATE, at).is_ok() {}
        (1..=300_000).for_each(|stranger| _ = meter.take(stranger, RATE, at).unwrap());
        assert!(meter.take(0, RATE, at).is_err());
    }

    #[test]
    fn callers_that_are_all_being_limited_find_room_too() {
        let meter = Meter::default();
        let all = Rate { every: RATE.window, ..RATE };
        (0..300_000).for_each(|caller| _ = meter.take(caller, all, meter.began).unwrap());
        assert!(meter.len() <= 100_000, "{}", meter.len());
    }
}
