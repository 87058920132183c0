//! What agents do, at random.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;

/// So many agents write to each other.
pub const AGENTS: usize = 3;
/// Ids of runs and threads: every agent uses the same few.
pub const IDS: [&str; 2] = ["0190a0de-0000-7000-8000-000000000001", "0190a0de-0000-7000-8000-000000000002"];

#[derive(Debug, Clone)]
pub enum Step {
    Send {
        from: usize,
        to: usize,
        asks: bool,
        thread: Option<usize>,
        answers: Option<Index>,
        key: Option<u8>,
    },
    Claim {
        agent: usize,
        run: usize,
        limit: usize,
        only: Option<Vec<Index>>,
    },
    Expire {
        agent: usize,
        run: usize,
    },
    Ack {
        agent: usize,
        picks: Vec<Index>,
        elsewhere: bool,
        reply: bool,
        key: Option<u8>,
    },
    /// The last ack again, as after a lost answer.
    AckAgain,
    Check {
        agent: usize,
        since: Index,
    },
}

pub fn step() -> impl Strategy<Value = Step> {
    let agent = || 0..AGENTS;
    let few = || vec(any::<Index>(), 1..4);
    let send = (
        agent(),
        agent(),
        any::<bool>(),
        option::weighted(0.4, 0..2usize),
        option::weighted(0.3, any::<Index>()),
        option::weighted(0.3, 0..2u8),
    )
        .prop_map(|(from, to, asks, thread, answers, key)| Step::Send {
            from,
            to,
            asks,
            thread,
            answers,
            key,
        });
    let claim = (agent(), 0..2usize, 1..4usize, option::weighted(0.3, few()))
        .prop_map(|(agent, run, limit, only)| Step::Claim { agent, run, limit, only });
    let ack = (agent(), few(), prop::bool::weighted(0.2), any::<bool>(), option::weighted(0.4, 0..2u8))
        .prop_map(|(agent, picks, elsewhere, reply, key)| Step::Ack { agent, picks, elsewhere, reply, key });
    prop_oneof![
        8 => send,
        5 => claim,
        2 => (agent(), 0..2usize).prop_map(|(agent, run)| Step::Expire { agent, run }),
        6 => ack,
        1 => Just(Step::AckAgain),
        2 => (agent(), any::<Index>()).prop_map(|(agent, since)| Step::Check { agent, since }),
    ]
}
