//! Sends in the background, paced, through the pod that is sent through.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::stage::Stage;
use crate::stage::agents::Agent;
use crate::stage::load::{BODY, Dice};
use crate::stage::wire::Wire;

const A_SECOND: u32 = 2_000;
const CONNECTIONS: u32 = 32;
/// Until what is measured beside it begins.
const WARM_UP: Duration = Duration::from_millis(300);

/// Clients that send.
pub struct Background {
    _clients: JoinSet<()>,
    sent: Arc<AtomicU64>,
    began: Instant,
}

impl Background {
    /// Starts them, and waits until they are warm.
    pub async fn start(stage: &Stage, agents: &[Agent]) -> Background {
        let (sent, agents): (Arc<AtomicU64>, Arc<[Agent]>) = (Arc::default(), agents.into());
        let mut clients = JoinSet::new();
        for place in 0..CONNECTIONS {
            let wire = Wire::open(stage.host(0)).await;
            clients.spawn(send(wire, place, agents.clone(), sent.clone()));
        }
        tokio::time::sleep(WARM_UP).await;
        sent.store(0, Relaxed);
        Background { _clients: clients, sent, began: Instant::now() }
    }

    /// Ends them, and tells how many they sent in a second.
    pub fn stop(self) -> f64 {
        self.sent.load(Relaxed) as f64 / self.began.elapsed().as_secs_f64()
    }
}

/// Each client has its own beat, evenly apart from the others'.
async fn send(mut wire: Wire, place: u32, agents: Arc<[Agent]>, sent: Arc<AtomicU64>) {
    let beat = Duration::from_secs(1) * CONNECTIONS / A_SECOND;
    let first = tokio::time::Instant::now() + beat * place / CONNECTIONS;
    let (mut tick, mut dice) = (tokio::time::interval_at(first, beat), Dice::new(place as usize));
    loop {
        tick.tick().await;
        let (key, to) = (&dice.choose(&agents).key, dice.choose(&agents).id);
        let letter = format!(r#"{{"recipient_agent_id":"{to}","body":"{BODY}"}}"#);
        let (status, answer) = wire.post("/api/v1/mailbox/messages", key, &letter).await;
        assert_eq!(status, 201, "{answer}");
        sent.fetch_add(1, Relaxed);
    }
}
