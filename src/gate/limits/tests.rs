//! Who is let in, how often, and what the refused are told.

use super::*;

fn tally(limits: &RateLimits, network: &str) -> Tally {
    Tally::new(limits.clone(), network.parse().unwrap())
}

const HERE: &str = "203.0.113.9/32";

/// How many requests of a credential are let in at once.
fn burst(limits: &RateLimits) -> usize {
    let id = Uuid::new_v4();
    let asks = || tally(limits, HERE).count_on_credential(id);
    std::iter::repeat_with(asks).take(10_000).take_while(Result::is_ok).count()
}

#[test]
fn a_pod_allows_its_share_of_the_burst_and_never_less_than_a_fifth() {
    let limits = RateLimits::new(100);
    for (pods, least) in [(0, 200), (1, 200), (2, 100), (4, 50), (5, 40), (6, 40), (500, 40)] {
        limits.share_among(pods);
        let let_in = burst(&limits);
        // While they came, some time went by.
        assert!((least..least + least / 4).contains(&let_in), "{pods} pods: {let_in}");
    }
}

#[test]
fn the_least_limit_shared_among_most_pods_lets_one_request_in() {
    let limits = RateLimits::new(1);
    assert_eq!(burst(&limits), 2);
    limits.share_among(5);
    assert_eq!(burst(&limits), 1);
    let tally = tally(&limits, HERE);
    tally.count_on_network().unwrap();
    assert_eq!(
        tally.standing(),
        Some(Standing { policy: "network", quota: 1, window: 5, remaining: 0, reset: 5 })
    );
}

#[test]
fn a_request_is_counted_once_however_many_keys_it_brings() {
    let limits = RateLimits::new(1);
    let (tally, id) = (tally(&limits, HERE), Uuid::new_v4());
    for _ in 0..10 {
        tally.count_on_credential(id).unwrap();
        tally.settle().unwrap();
    }
    let standing = tally.standing().unwrap();
    assert_eq!((standing.policy, standing.quota, standing.remaining), ("credential", 2, 1));
}

#[test]
fn whoever_is_refused_is_told_when_to_come_back() {
    let limits = RateLimits::new(1);
    let id = Uuid::new_v4();
    let ask = || tally(&limits, HERE).count_on_credential(id);
    ask().unwrap();
    ask().unwrap();
    let Err(Error::RateLimited { what, retry_after }) = ask() else { panic!("let in") };
    assert_eq!((what, retry_after), ("requests", 1));
}

#[test]
fn guesses_of_a_network_end_and_those_of_another_do_not() {
    let limits = RateLimits::new(1);
    for _ in 0..2 {
        let guess = tally(&limits, HERE);
        assert!(guess.may_guess());
        guess.guess().unwrap();
        guess.guess().unwrap();
    }
    let guess = tally(&limits, HERE);
    assert!(!guess.may_guess());
    assert!(guess.guess().is_err());
    assert_eq!(guess.standing().unwrap().policy, "network");
    tally(&limits, HERE).count_on_credential(Uuid::new_v4()).unwrap();
    tally(&limits, "203.0.113.10/32").guess().unwrap();
}

#[test]
fn what_was_no_guess_counts_on_nobody() {
    let limits = RateLimits::new(1);
    for _ in 0..100 {
        let tally = tally(&limits, HERE);
        tally.guess().unwrap().was_none();
        assert!(tally.standing().is_none());
    }
}

#[test]
fn a_million_wrong_keys_of_one_network_are_one_bucket() {
    let limits = RateLimits::new(50);
    let refused = (0..1_000_000).filter(|_| tally(&limits, HERE).count_on_network().is_err()).count();
    assert!(refused > 900_000, "{refused}");
    assert_eq!((limits.0.networks.len(), limits.0.credentials.len()), (1, 0));
}

#[test]
fn without_a_limit_nothing_is_counted_or_told() {
    let limits = RateLimits::new(0);
    let tally = tally(&limits, HERE);
    for _ in 0..10_000 {
        tally.count_on_network().unwrap();
        tally.guess().unwrap();
    }
    assert_eq!((tally.standing(), limits.0.networks.len()), (None, 0));
}
