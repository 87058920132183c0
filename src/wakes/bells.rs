//! Sleepers of this pod: one level-triggered bell per topic that somebody waits for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{Topic, Wakes};

const SHARDS: usize = 64;

/// The bells by topic. A bell stands only while somebody waits for it.
pub(super) struct Bells(Vec<Mutex<HashMap<Topic, watch::Sender<i64>>>>);

/// The right to be woken for one topic. Holds no database connection.
pub struct Sleeper {
    news: Option<watch::Receiver<i64>>,
    wakes: Wakes,
    topic: Topic,
}

impl Sleeper {
    pub(super) fn new(wakes: Wakes, topic: Topic) -> Sleeper {
        let news = Some(wakes.0.bells.subscribe(topic));
        Sleeper { news, wakes, topic }
    }

    /// Returns once the topic has moved beyond `cursor`; at once if it already has.
    ///
    /// Dropping the future loses nothing.
    pub async fn moved_beyond(&mut self, cursor: i64) {
        let Some(news) = self.news.as_mut() else { return std::future::pending().await };
        if news.wait_for(|newest| *newest > cursor).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Tells the bell how far the mailbox is known to be, so that the sweep does not
    /// take old history for news.
    pub fn has_read_to(&self, head: i64) {
        self.wakes.0.bells.ring(self.topic, head);
    }

    /// The newest place anybody told of.
    pub fn newest(&self) -> i64 {
        self.news.as_ref().map_or(0, |news| *news.borrow())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // The receiver goes first: two that leave at once must not both count two.
        drop(self.news.take());
        self.wakes.0.bells.leave(self.topic);
    }
}

impl Bells {
    pub(super) fn new() -> Bells {
        Bells((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    fn subscribe(&self, topic: Topic) -> watch::Receiver<i64> {
        self.shard(topic).entry(topic).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Moves the bell forward and tells whether that woke anybody: a pod hears its
    /// own notifications too, and the sweep repeats old news.
    pub(super) fn ring(&self, topic: Topic, at: i64) -> bool {
        self.shard(topic).get(&topic).is_some_and(|bell| {
            bell.send_if_modified(|newest| {
                let newer = at > *newest;
                *newest = at.max(*newest);
                newer
            })
        })
    }

    fn leave(&self, topic: Topic) {
        let mut bells = self.shard(topic);
        if bells.get(&topic).is_some_and(|bell| bell.receiver_count() == 0) {
            bells.remove(&topic);
        }
    }

    /// What is waited for, and how far each is known to be.
    pub(super) fn all(&self) -> Vec<(Topic, i64)> {
        let mut all = Vec::new();
        for shard in &self.0 {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(shard.iter().map(|(topic, bell)| (*topic, *bell.borrow())));
        }
        all
    }

    fn shard(&self, topic: Topic) -> MutexGuard<'_, HashMap<Topic, watch::Sender<i64>>> {
        let id = match topic {
            Topic::Mailbox { agent_id, .. } => agent_id,
            Topic::Credential(credential_id) => credential_id,
        };
        let place = usize::from(id.as_bytes()[15]) % SHARDS;
        self.0[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn topic() -> Topic {
        Topic::Mailbox { org_id: Uuid::nil(), agent_id: Uuid::now_v7() }
    }

    #[tokio::test]
    async fn a_sleeper_wakes_for_what_is_newer_than_its_cursor_only() {
        let (wakes, topic) = (Wakes::default(), topic());
        let mut sleeper = wakes.sleeper(topic);
        wakes.ring(&[(topic, 5)]);
        sleeper.moved_beyond(4).await;
        assert!(futures::FutureExt::now_or_never(sleeper.moved_beyond(5)).is_none());
        wakes.ring(&[(topic, 6)]);
        sleeper.moved_beyond(5).await;
    }

    #[test]
    fn a_bell_goes_with_its_last_sleeper() {
        let (wakes, topic) = (Wakes::default(), topic());
        let (one, two) = (wakes.sleeper(topic), wakes.sleeper(topic));
        drop(one);
        assert_eq!(wakes.0.bells.all().len(), 1);
        drop(two);
        assert!(wakes.0.bells.all().is_empty());
    }

    #[test]
    fn sleepers_leaving_at_once_leave_no_bell_behind() {
        for _ in 0..200 {
            let (wakes, topic) = (Wakes::default(), topic());
            let sleepers: Vec<Sleeper> = (0..4).map(|_| wakes.sleeper(topic)).collect();
            std::thread::scope(|scope| {
                for sleeper in sleepers {
                    scope.spawn(move || drop(sleeper));
                }
            });
            assert!(wakes.0.bells.all().is_empty());
        }
    }
}
