//! One wake: through two pods, or through Postgres alone.

use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::PgConnection;
use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::stage::Stage;
use crate::stage::agents::Agent;
use crate::stage::load::BODY;
use crate::stage::wire::{Stream, Wire};

/// The three moments of a wake.
pub struct Wake {
    called: Instant,
    answered: Instant,
    told: Instant,
}

impl Wake {
    /// From the caller's answer, which comes after the commit, until the other was told; nothing when that was sooner.
    pub fn since_answer(&self) -> Duration {
        self.told.saturating_duration_since(self.answered)
    }

    /// From the call.
    pub fn since_call(&self) -> Duration {
        self.told - self.called
    }
}

/// Something that wakes somebody.
pub trait Waker {
    /// Does it once; both ends are watched at the same time.
    async fn once(&mut self) -> Wake;
}

/// A send at the first pod and a stream at the second.
pub struct Waypost {
    wire: Wire,
    headers: String,
    letter: String,
    stream: Stream,
}

impl Waypost {
    /// Opens both ends.
    pub async fn open(stage: &Stage, sender: &Agent, recipient: &Agent) -> Waypost {
        Waypost {
            wire: Wire::open(stage.host(0)).await,
            headers: sender.key.clone(),
            letter: format!(r#"{{"recipient_agent_id":"{}","body":"{BODY}"}}"#, recipient.id),
            stream: Stream::open(stage.host(1), recipient).await,
        }
    }
}

impl Waker for Waypost {
    async fn once(&mut self) -> Wake {
        let called = Instant::now();
        let sending = async {
            let (status, answer) =
                self.wire.post("/api/v1/mailbox/messages", &self.headers, &self.letter).await;
            let answered = Instant::now();
            assert_eq!(status, 201, "{answer}");
            (answered, serde_json::from_str::<Value>(answer).unwrap()["seq"].as_i64().unwrap())
        };
        let ((answered, sent), (seq, told)) = tokio::join!(sending, self.stream.next());
        assert_eq!(seq, sent, "a stream tells of every message once");
        Wake { called, answered, told }
    }
}

/// `pg_notify` on one connection and `LISTEN` on another.
pub struct Bare {
    db: PgConnection,
    listener: PgListener,
}

impl Bare {
    /// Opens both ends.
    pub async fn open(stage: &Stage) -> Bare {
        let pool = PgPoolOptions::new().max_connections(1).connect_with(stage.database()).await.unwrap();
        let mut listener = PgListener::connect_with(&pool).await.unwrap();
        listener.listen("bench").await.unwrap();
        Bare { db: stage.connect().await, listener }
    }
}

impl Waker for Bare {
    async fn once(&mut self) -> Wake {
        let called = Instant::now();
        let notifying = async {
            sqlx::query("select pg_notify('bench', '')").execute(&mut self.db).await.unwrap();
            Instant::now()
        };
        let hearing = async {
            self.listener.recv().await.unwrap();
            Instant::now()
        };
        let (answered, told) = tokio::join!(notifying, hearing);
        Wake { called, answered, told }
    }
}
