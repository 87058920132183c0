//! The mailbox against a plain model: random sends, claims, expiries, acks, retries and checks of three agents,
//! each answer and every count compared with what a few vectors in memory say.

mod plain;
mod run;
mod steps;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use waypost::config::{Caps, Config};

use crate::house::{House, settings};
use plain::{MAILBOX_CAP, SENDER_CAP};
use run::Run;
use steps::{Step, step};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_agents_do_the_mailbox_answers_as_a_plain_model_does() {
    let caps = Caps { mailbox: MAILBOX_CAP, sender: SENDER_CAP };
    let house = House::with_pods(1, Config { caps, ..settings() }).await;
    let here = tokio::runtime::Handle::current();
    let config = ProptestConfig {
        cases: 20,
        max_shrink_iters: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let case = |steps: Vec<Step>| {
        let run = async {
            let mut run = Run::start(&house).await;
            for step in steps {
                run.take(step).await?;
            }
            run.end().await
        };
        tokio::task::block_in_place(|| here.block_on(run))
    };
    TestRunner::new(config).run(&vec(step(), 15..35), case).unwrap();
}
