use std::time::Duration;

use proptest::prelude::*;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::inbox::posting::{Letter, Sender};

type Verdicts = oneshot::Receiver<Result<Verdict>>;

fn posting(org: u128, agents: &[u128], text: &str) -> Posting {
    let letter = |agent: &u128| Letter {
        to: Uuid::from_u128(*agent),
        message_id: Uuid::nil(),
        sender: Sender::System,
        message_type: String::new(),
        body: text.to_owned(),
        parts: None,
        thread_id: None,
        in_reply_to: None,
        ack_requested: false,
        ack_deadline: None,
        probe_nonce: None,
        counted: false,
        heeds_policy: false,
    };
    let letters = agents.iter().map(letter).collect();
    Posting {
        org_id: Uuid::from_u128(org),
        letters,
        acks: None,
        claim: None,
        only_with_ack: false,
        key: None,
        trace: None,
    }
}

fn push(queue: &mut Queue, org: u128, agents: &[u128], text: &str) -> Verdicts {
    let (answer, verdict) = oneshot::channel();
    let until = Instant::now() + Duration::from_secs(60);
    let ticket = Ticket { answer, until, tries: 0 };
    assert!(queue.push(Waiting::new(posting(org, agents, text), ticket)).is_ok());
    verdict
}

fn take(queue: &mut Queue) -> Option<Batch> {
    queue.take(Instant::now())
}

fn texts(batch: &Batch) -> Vec<&str> {
    batch.postings.iter().map(|posting| posting.letters[0].body.as_str()).collect()
}

/// Puts the whole batch back, as one that was left out.
fn put_back(queue: &mut Queue, batch: Batch) {
    let Batch { postings, tickets, hold, .. } = batch;
    let again = |(posting, ticket): (Posting, Ticket)| {
        Waiting::new(posting, Ticket { tries: ticket.tries + 1, ..ticket })
    };
    queue.settle(&hold, postings.into_iter().zip(tickets).map(again).collect());
}

#[test]
fn postings_of_one_mailbox_keep_their_order() {
    let mut queue = Queue::default();
    let _answers: Vec<_> = (0..200).map(|n| push(&mut queue, 1, &[1], &n.to_string())).collect();
    let mut seen = Vec::new();
    while let Some(batch) = take(&mut queue) {
        seen.extend(texts(&batch).into_iter().map(str::to_owned));
        queue.settle(&batch.hold, Vec::new());
    }
    assert_eq!(seen, (0..200).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(!queue.has_any());
}

#[test]
fn a_flood_in_one_organization_leaves_the_next_batch_open_to_another() {
    let mut queue = Queue::default();
    let _flood: Vec<_> = (0..5000).map(|n| push(&mut queue, 1, &[n % 700], "flood")).collect();
    let _one = push(&mut queue, 2, &[1], "one");
    assert!(texts(&take(&mut queue).unwrap()).contains(&"one"));
}

#[test]
fn a_flooded_mailbox_leaves_the_next_batch_open_to_others() {
    let mut queue = Queue::default();
    let _flood: Vec<_> = (0..5000).map(|_| push(&mut queue, 1, &[1], "flood")).collect();
    let _one = push(&mut queue, 1, &[2], "one");
    let batch = take(&mut queue).unwrap();
    assert!(texts(&batch).contains(&"one"));
    assert_eq!(batch.postings.len(), BATCH, "and fills it all the same");
}

#[test]
fn a_mailbox_is_in_one_lane_at_a_time() {
    let mut queue = Queue::default();
    let _first = push(&mut queue, 1, &[1, 2], "first");
    let batch = take(&mut queue).unwrap();
    let _others = [push(&mut queue, 1, &[1], "one"), push(&mut queue, 1, &[2], "two")];
    let _beside = [push(&mut queue, 1, &[3, 2], "reply"), push(&mut queue, 1, &[4], "four")];
    assert_eq!(texts(&take(&mut queue).unwrap()), ["four"]);
    assert!(take(&mut queue).is_none());
    queue.settle(&batch.hold, Vec::new());
    let mut rest =
        texts(&take(&mut queue).unwrap()).join(" ").split(' ').map(str::to_owned).collect::<Vec<_>>();
    rest.sort();
    assert_eq!(rest, ["one", "reply", "two"]);
}

#[test]
fn what_was_left_out_goes_first_and_then_waits_alone() {
    let mut queue = Queue::default();
    let _held = push(&mut queue, 1, &[1], "held");
    for _ in 0..TRIES {
        let batch = take(&mut queue).unwrap();
        assert_eq!(batch.hold.patience, Patience::Skip);
        put_back(&mut queue, batch);
    }
    let _others = [push(&mut queue, 1, &[2], "other"), push(&mut queue, 1, &[1], "behind")];
    let alone = take(&mut queue).unwrap();
    assert_eq!((texts(&alone), alone.hold.patience), (vec!["held"], Patience::Wait));
    let beside = take(&mut queue).unwrap();
    assert_eq!((texts(&beside), beside.hold.patience), (vec!["other"], Patience::Skip));
    assert!(take(&mut queue).is_none(), "its mailbox is in a lane");
    queue.settle(&alone.hold, Vec::new());
    assert_eq!(texts(&take(&mut queue).unwrap()), ["behind"]);
}

#[test]
fn what_was_left_out_goes_before_what_came_later() {
    let mut queue = Queue::default();
    let _first = push(&mut queue, 1, &[1], "first");
    let batch = take(&mut queue).unwrap();
    let _second = push(&mut queue, 1, &[1], "second");
    put_back(&mut queue, batch);
    assert_eq!(texts(&take(&mut queue).unwrap()), ["first", "second"]);
}

#[test]
fn what_waits_alone_lets_those_of_its_mailbox_have_a_turn() {
    let mut queue = Queue::default();
    let _held = push(&mut queue, 1, &[1], "held");
    for _ in 0..TRIES {
        let batch = take(&mut queue).unwrap();
        put_back(&mut queue, batch);
    }
    let _behind = push(&mut queue, 1, &[1], "behind");
    let alone = take(&mut queue).unwrap();
    assert_eq!(texts(&alone), ["held"]);
    put_back(&mut queue, alone);
    assert_eq!(texts(&take(&mut queue).unwrap()), ["behind"]);
}

#[test]
fn an_organization_whose_mailboxes_are_all_in_a_lane_holds_up_no_other() {
    let mut queue = Queue::default();
    let _held = push(&mut queue, 1, &[1], "held");
    let _in_lane = take(&mut queue).unwrap();
    let _others = [push(&mut queue, 1, &[1], "blocked"), push(&mut queue, 2, &[1], "free")];
    assert_eq!(texts(&take(&mut queue).unwrap()), ["free"]);
}

#[test]
fn a_batch_takes_nothing_more_once_it_is_heavy() {
    let mut queue = Queue::default();
    let many: Vec<u128> = (0..WEIGHT as u128).collect();
    let _postings = [push(&mut queue, 1, &many, "heavy"), push(&mut queue, 2, &[1], "light")];
    assert_eq!(texts(&take(&mut queue).unwrap()), ["heavy"]);
    assert_eq!(texts(&take(&mut queue).unwrap()), ["light"]);
}

#[test]
fn only_one_lane_waits_at_a_time() {
    let mut queue = Queue::default();
    let _held = [push(&mut queue, 1, &[1], "one"), push(&mut queue, 1, &[2], "two")];
    for _ in 0..TRIES {
        let batch = take(&mut queue).unwrap();
        put_back(&mut queue, batch);
    }
    let first = take(&mut queue).unwrap();
    let other = if texts(&first) == ["one"] { "two" } else { "one" };
    assert!(take(&mut queue).is_none());
    put_back(&mut queue, first);
    assert_eq!(texts(&take(&mut queue).unwrap()), [other], "and they take turns");
}

#[test]
fn who_has_waited_too_long_is_told_and_who_is_gone_is_dropped() {
    let mut queue = Queue::default();
    drop(push(&mut queue, 1, &[1], "gone"));
    let mut late = push(&mut queue, 1, &[1], "late");
    let batch = take(&mut queue).unwrap();
    assert_eq!(texts(&batch), ["late"]);
    put_back(&mut queue, batch);
    assert!(queue.take(Instant::now() + Duration::from_secs(61)).is_none());
    assert!(matches!(late.try_recv(), Ok(Err(Error::Unavailable { outcome_unknown: false, .. }))));
    assert!(!queue.has_any());
}

#[test]
fn who_waits_alone_is_told_in_time_although_another_lane_has_its_mailbox() {
    let mut queue = Queue::default();
    let mut late = push(&mut queue, 1, &[2, 1], "late");
    let _one = push(&mut queue, 1, &[1], "one");
    for _ in 0..TRIES {
        let batch = take(&mut queue).unwrap();
        assert_eq!(batch.postings.len(), 2);
        put_back(&mut queue, batch);
    }
    let alone = take(&mut queue).unwrap();
    assert_eq!(texts(&alone), ["one"]);
    queue.settle(&alone.hold, Vec::new());
    let _new = push(&mut queue, 1, &[1], "new");
    assert_eq!(texts(&take(&mut queue).unwrap()), ["new"]);
    assert!(queue.take(Instant::now() + Duration::from_secs(61)).is_none());
    assert!(matches!(late.try_recv(), Ok(Err(Error::Unavailable { outcome_unknown: false, .. }))));
}

#[test]
fn one_organization_cannot_fill_the_queue() {
    let mut queue = Queue::default();
    let mut kept = Vec::new();
    let full = loop {
        let (answer, verdict) = oneshot::channel();
        let until = Instant::now() + Duration::from_secs(60);
        let ticket = Ticket { answer, until, tries: 0 };
        match queue.push(Waiting::new(posting(1, &[1], ""), ticket)) {
            Ok(()) => kept.push(verdict),
            Err(_) => break kept.len(),
        }
    };
    assert_eq!(full, MOST_OF_ONE);
    let mut other = push(&mut queue, 2, &[1], "other");
    assert_eq!(other.try_recv().unwrap_err(), TryRecvError::Empty);
    assert!(texts(&take(&mut queue).unwrap()).contains(&"other"));
}

#[test]
fn all_organizations_together_fill_the_queue_to_its_end() {
    let mut queue = Queue::default();
    let mut kept = Vec::new();
    for n in 0..MOST + 10 {
        let (answer, verdict) = oneshot::channel();
        let until = Instant::now() + Duration::from_secs(60);
        let ticket = Ticket { answer, until, tries: 0 };
        let posting = posting(n as u128 % 5, &[1], "");
        kept.extend(queue.push(Waiting::new(posting, ticket)).is_ok().then_some(verdict));
    }
    assert_eq!(kept.len(), MOST);
}

#[derive(Debug, Clone)]
enum Step {
    Push { org: u128, agents: Vec<u128> },
    Take,
    Settle { oldest: bool, puts_back: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..4u128, prop::collection::vec(1..6u128, 1..3)).prop_map(|(org, agents)| Step::Push { org, agents }),
        2 => Just(Step::Take),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(oldest, puts_back)| Step::Settle { oldest, puts_back }),
    ]
}

proptest! {
    /// Whatever happens in whatever order: nothing is lost or taken twice, no mailbox is in two lanes,
    /// and once all is settled nothing is left behind.
    #[test]
    fn every_posting_is_taken_once(steps in prop::collection::vec(step(), 1..200)) {
        let (mut queue, mut lanes, mut answers) = (Queue::default(), Vec::<Batch>::new(), Vec::new());
        let (mut pushed, mut done) = (0, 0);
        for step in steps {
            match step {
                Step::Push { org, agents } => {
                    answers.push(push(&mut queue, org, &agents, ""));
                    pushed += 1;
                }
                Step::Take if lanes.len() < 3 => {
                    let Some(batch) = take(&mut queue) else { continue };
                    for other in &lanes {
                        prop_assert!(other.hold.mailboxes.is_disjoint(&batch.hold.mailboxes));
                    }
                    lanes.push(batch);
                }
                Step::Settle { oldest, puts_back } if !lanes.is_empty() => {
                    let batch = if oldest { lanes.remove(0) } else { lanes.pop().unwrap() };
                    match puts_back {
                        true => put_back(&mut queue, batch),
                        false => {
                            done += batch.postings.len();
                            queue.settle(&batch.hold, Vec::new());
                        }
                    }
                }
                _ => {}
            }
        }
        for batch in lanes.drain(..) {
            done += batch.postings.len();
            queue.settle(&batch.hold, Vec::new());
        }
        while let Some(batch) = take(&mut queue) {
            done += batch.postings.len();
            queue.settle(&batch.hold, Vec::new());
        }
        prop_assert_eq!(pushed, done);
        prop_assert!(!queue.has_any() && queue.slots.is_empty() && queue.orgs.is_empty());
        prop_assert!(queue.busy.is_empty() && queue.waiting == 0);
    }
}
