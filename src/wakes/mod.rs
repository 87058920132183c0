//! Who waits, and how the news reaches them, on whichever pod they wait.
//!
//! After a commit the writer rings: sleepers of this pod wake at once (`bells`),
//! other pods hear it by one coalesced notification (`ring`, `listener`), and
//! once a second the `sweep` looks for what was lost on the way. News is only a
//! hint: whoever wakes reads again by cursor.

mod bells;
mod listener;
mod ring;
mod sweep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use bells::Bells;
pub use bells::Sleeper;

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// A mailbox; its news is the newest seq.
    Mailbox {
        /// Its organization.
        org_id: Uuid,
        /// Its agent.
        agent_id: Uuid,
    },
    /// A credential; its news, 1, is that it was revoked.
    Credential(Uuid),
}

/// News: the topic and how far it has moved.
pub type News = (Topic, i64);

/// How long a revoked credential is kept in mind: longer than anybody may remember its session.
pub(crate) const KEEP_REVOKED: Duration = Duration::from_secs(2);
/// Most of them; what is forgotten is found out when the remembered session is too old.
const MOST_REVOKED: u64 = 100_000;

/// The pod's end of all waiting. Cheap to clone.
#[derive(Clone)]
pub struct Wakes(Arc<Inner>);

struct Inner {
    bells: Bells,
    /// Rung here and not yet told to the other pods.
    untold: Mutex<HashMap<Topic, i64>>,
    told: Notify,
    /// Rung when the listener (re)started.
    sweep_now: Notify,
    /// Rung when a webhook became due here.
    webhooks_due: Notify,
    /// Credentials revoked a moment ago, for who remembers sessions.
    revoked: Cache<Uuid, ()>,
}

impl Default for Wakes {
    fn default() -> Wakes {
        Wakes(Arc::new(Inner {
            bells: Bells::new(),
            untold: Mutex::default(),
            told: Notify::new(),
            sweep_now: Notify::new(),
            webhooks_due: Notify::new(),
            revoked: Cache::builder().max_capacity(MOST_REVOKED).time_to_live(KEEP_REVOKED).build(),
        }))
    }
}

impl Wakes {
    /// Connects this pod to the others until `stop`. Each future is a task that must
    /// not end before that; each has its own connection, never one of the pool.
    pub fn tasks(&self, options: &PgConnectOptions, stop: &CancellationToken) -> [Task; 3] {
        [
            ("wakes.ring", Box::pin(ring::run(self.clone(), options.clone(), stop.clone()))),
            ("wakes.listener", Box::pin(listener::run(self.clone(), options.clone(), stop.clone()))),
            ("wakes.sweep", Box::pin(sweep::run(self.clone(), options.clone(), stop.clone()))),
        ]
    }

    /// Wakes whoever waits for these, here and on other pods. Call after the commit.
    pub fn ring(&self, news: &[News]) {
        if news.is_empty() {
            return;
        }
        let mut untold = self.untold();
        for (topic, at) in news {
            self.hear(*topic, *at, "local");
            let newest = untold.entry(*topic).or_insert(*at);
            *newest = (*newest).max(*at);
        }
        drop(untold);
        self.0.told.notify_one();
    }

    /// Tells this pod that webhooks became due. No other pod need hear of it: whoever is late finds them by sweep.
    pub fn ring_webhooks(&self) {
        self.0.webhooks_due.notify_one();
    }

    /// Returns once webhooks became due, also while nobody waited for it.
    pub async fn webhooks_due(&self) {
        self.0.webhooks_due.notified().await;
    }

    /// The right to be woken. Subscribe before the first read: what is stored in
    /// between still wakes.
    pub fn sleeper(&self, topic: Topic) -> Sleeper {
        Sleeper::new(self.clone(), topic)
    }

    /// How many things are waited for on this pod.
    pub fn waited_for(&self) -> usize {
        self.0.bells.all().len()
    }

    /// Whether this credential is known to have been revoked in the last [`KEEP_REVOKED`], here or on
    /// another pod.
    pub(crate) fn is_revoked(&self, credential_id: Uuid) -> bool {
        self.0.revoked.contains_key(&credential_id)
    }

    fn hear(&self, topic: Topic, at: i64, source: &'static str) {
        if let Topic::Credential(credential_id) = topic {
            self.0.revoked.insert(credential_id, ());
        }
        if self.0.bells.ring(topic, at) {
            metrics::counter!(crate::telemetry::WAKES, "source" => source).increment(1);
        }
    }

    fn untold(&self) -> MutexGuard<'_, HashMap<Topic, i64>> {
        self.0.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that must live as long as the pod, with its name.
pub type Task = (&'static str, std::pin::Pin<Box<dyn Future<Output = ()> + Send>>);
