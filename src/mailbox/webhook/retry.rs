//! When a failed call is tried again.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The waits after the first, second … failure in a row; the last one stands for all that follow.
const WAITS: [u64; 7] = [5, 30, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR];
/// Up to so much of a wait is added by chance, so that what failed together does not come back together.
const JITTER: f64 = 0.2;

/// The wait after `failures` in a row, with a `chance` from 0 to 1.
pub(super) fn wait(failures: u32, chance: f64) -> Duration {
    let place = (failures.max(1) as usize - 1).min(WAITS.len() - 1);
    // In whole milliseconds: the database knows no nanoseconds.
    let jitter = (WAITS[place] * 1_000) as f64 * JITTER * chance.clamp(0.0, 1.0);
    Duration::from_secs(WAITS[place]) + Duration::from_millis(jitter as u64)
}

/// A number from 0 to 1. Without the system's random bytes, the middle.
pub(super) fn chance() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_ten_hours_and_scatter_upwards() {
        let waits: Vec<u64> = (1..10).map(|failures| wait(failures, 0.0).as_secs()).collect();
        assert_eq!(waits, [5, 30, 300, 1_800, 7_200, 18_000, 36_000, 36_000, 36_000]);
        assert_eq!(wait(1, 1.0), Duration::from_secs(6));
        assert!((0..100).all(|_| wait(1, chance()).subsec_nanos().is_multiple_of(1_000_000)));
        assert!((0..100).all(|_| (0.0..=1.0).contains(&chance())));
    }
}
