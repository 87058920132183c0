//! Mail at a steady rate, whatever the answers take.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::stage::Stage;
use crate::stage::agents::Agent;
use crate::stage::load::BODY;
use crate::stage::wire::Wire;

/// Messages a second.
const RATE: usize = 500;
/// Who writes, each on a connection of its own.
const WRITERS: usize = 32;

/// A message, when it was to leave, and the place of its recipient.
pub struct Sent {
    pub id: String,
    pub to: usize,
    pub at: Instant,
}

/// Sends for so long.
pub async fn send(stage: &Stage, agents: &[Agent], time: Duration) -> Vec<Sent> {
    let begin = Instant::now() + Duration::from_millis(100);
    let count = (RATE as f64 * time.as_secs_f64()) as usize;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut wire = Wire::open(stage.host(writer)).await;
        let (key, ids) =
            (agents[writer].key.clone(), agents.iter().map(|agent| agent.id).collect::<Vec<_>>());
        writers.spawn(async move {
            let mut sent = Vec::new();
            for number in (writer..count).step_by(WRITERS) {
                let at = begin + Duration::from_secs_f64(number as f64 / RATE as f64);
                sleep_until(at).await;
                // Far from each other, and each as often as any other.
                let to = number * 7_919 % ids.len();
                let letter = json!({ "recipient_agent_id": ids[to], "body": BODY }).to_string();
                let (status, answer) = wire.post("/api/v1/mailbox/messages", &key, &letter).await;
                assert_eq!(status, 201, "{answer}");
                let answer: Value = serde_json::from_str(answer).unwrap();
                sent.push(Sent { id: answer["message_id"].as_str().unwrap().to_owned(), to, at });
            }
            sent
        });
    }
    writers.join_all().await.into_iter().flatten().collect()
}
