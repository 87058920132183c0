//! Sessions remembered for half a second, so that a busy agent's key is not looked up for every call; and for
//! ten minutes that they stood, which tells a caller from a guess.

use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;
use uuid::Uuid;

use super::session::Session;
use crate::wakes::{KEEP_REVOKED, Wakes};

/// A revoked key is refused everywhere within a second: at once where the news of it
/// arrives, and at the latest when what is remembered is this old.
pub(super) const REMEMBER: Duration = Duration::from_millis(500);
/// How long it is known that a key stood.
pub(super) const KNOWN: Duration = Duration::from_secs(600);
/// Most sessions remembered.
pub(super) const MOST: u64 = 100_000;

// A session outlives no news of its end: see `Remembered::get`.
const _: () = assert!(REMEMBER.as_millis() < KEEP_REVOKED.as_millis());

pub(super) struct Remembered {
    wakes: Wakes,
    /// By the hash of the key, with the moment before the database was asked.
    sessions: Cache<[u8; 32], (Instant, Session)>,
}

/// A key that stood lately.
pub(super) struct Known {
    /// Whose it was.
    pub credential_id: Uuid,
    /// Its session, unless it is too old or known to be revoked: then it must be looked up.
    pub session: Option<Session>,
}

impl Remembered {
    pub(super) fn new(wakes: Wakes) -> Remembered {
        Remembered { wakes, sessions: Cache::builder().max_capacity(MOST).time_to_live(KNOWN).build() }
    }

    /// What is known of a key that stood when it was looked up last.
    ///
    /// The age of a session counts from before the database was asked. So one that was found just before its
    /// revocation, and put here after it, goes before the news of the revocation does.
    pub(super) fn get(&self, hash: &[u8; 32]) -> Option<Known> {
        let (asked_at, session) = self.sessions.get(hash)?;
        let credential_id = session.credential_id();
        let stands = asked_at.elapsed() < REMEMBER && !self.wakes.is_revoked(credential_id);
        Some(Known { credential_id, session: stands.then_some(session) })
    }

    /// Takes note that a key does not stand.
    pub(super) fn forget(&self, hash: &[u8; 32]) {
        self.sessions.invalidate(hash);
    }

    pub(super) fn put(&self, hash: [u8; 32], asked_at: Instant, session: Session) {
        self.sessions.insert(hash, (asked_at, session));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::call::{Organization, OwnerSession};
    use crate::wakes::Topic;

    impl Remembered {
        fn session(&self, key: u8) -> Option<Session> {
            self.get(&[key; 32]).and_then(|known| known.session)
        }
    }

    fn session(credential_id: Uuid) -> Session {
        let org = Organization { org_id: Uuid::nil(), slug: "public".into(), open: true };
        let owner = OwnerSession { credential_id, owner_id: Uuid::nil() };
        Session { org, agent: None, owner: Some(Arc::new(owner)) }
    }

    #[test]
    fn a_revocation_ends_that_session_and_no_other() {
        let remembered = Remembered::new(Wakes::default());
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        remembered.put([1; 32], Instant::now(), session(one));
        remembered.put([2; 32], Instant::now(), session(other));
        remembered.wakes.ring(&[(Topic::Credential(one), 1)]);
        assert!(remembered.session(1).is_none());
        assert!(remembered.session(2).is_some());
        assert_eq!(remembered.get(&[1; 32]).unwrap().credential_id, one, "it stood, and is no guess");
    }

    #[test]
    fn a_session_found_before_its_revocation_and_put_after_it_is_not_given() {
        let remembered = Remembered::new(Wakes::default());
        let (asked_at, revoked) = (Instant::now(), Uuid::now_v7());
        remembered.wakes.ring(&[(Topic::Credential(revoked), 1)]);
        remembered.put([1; 32], asked_at, session(revoked));
        assert!(remembered.session(1).is_none());
    }

    #[test]
    fn the_age_of_a_session_counts_from_before_the_database_was_asked() {
        let remembered = Remembered::new(Wakes::default());
        remembered.put([1; 32], Instant::now() - REMEMBER, session(Uuid::now_v7()));
        assert!(remembered.session(1).is_none(), "the database took too long to answer");
    }
}
