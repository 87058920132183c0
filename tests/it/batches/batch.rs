//! Postings that a test carries out in one transaction, as a lane does.

use std::time::Duration;

use serde_json::json;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;
use waypost::config::Caps;
use waypost::inbox::{Acks, Care, Claim, Judged, Key, Letter, Patience, Posting, Sender, Verdict, post};

use crate::house::mail::unacked;
use crate::house::{Agent, House};

const CAPS: Caps = Caps { mailbox: 3, sender: 2 };

/// A house without a poster: postings are carried out together as the test says.
pub struct Batch {
    pub house: House,
    org_id: Uuid,
}

impl Batch {
    pub async fn open() -> Batch {
        let house = House::open().await;
        let org_id =
            sqlx::query_scalar("select org_id from organization").fetch_one(&house.db).await.unwrap();
        Batch { house, org_id }
    }

    pub async fn agent(&self) -> Agent {
        self.house.register().await
    }

    pub async fn alone(&self, posting: Posting) -> Verdict {
        self.together([posting]).await.pop().unwrap()
    }

    /// Carries out these postings in one transaction, as a lane does: again with their keys looked up
    /// when the first try was led astray.
    pub async fn together<const N: usize>(&self, postings: [Posting; N]) -> Vec<Verdict> {
        for looks_up_keys in [false, true] {
            let mut db = PgConnection::connect_with(&self.house.options).await.unwrap();
            sqlx::raw_sql("begin").execute(&mut db).await.unwrap();
            let care = Care { patience: Patience::Skip, looks_up_keys };
            if let Judged::Verdicts { verdicts, .. } = post(&mut db, CAPS, &postings, care).await.unwrap() {
                sqlx::raw_sql("commit").execute(&mut db).await.unwrap();
                return verdicts;
            }
        }
        panic!("a key was taken although the keys were looked up");
    }

    pub fn letter(&self, from: &Agent, to: &Agent, key: Option<&str>, print: u8) -> Posting {
        let letter = Letter {
            to: to.id.parse().unwrap(),
            message_id: Uuid::now_v7(),
            sender: Sender::Agent { agent_id: from.id.parse().unwrap(), name: from.name.clone() },
            message_type: "direct".into(),
            body: "hello".into(),
            parts: None,
            thread_id: None,
            in_reply_to: None,
            ack_requested: false,
            ack_deadline: None,
            probe_nonce: None,
            counted: true,
            heeds_policy: true,
        };
        self.posting(vec![letter], None, keyed(from, key, print))
    }

    pub fn claim(&self, of: &Agent, run: Uuid, limit: usize) -> Posting {
        let claim = Claim {
            agent_id: of.id.parse().unwrap(),
            run_id: run,
            limit,
            message_ids: None,
            lease: Duration::from_secs(60),
            frame: 0,
        };
        Posting { claim: Some(claim), ..self.posting(Vec::new(), None, None) }
    }

    /// A claim of these messages alone.
    pub fn claim_of(&self, of: &Agent, message_ids: &[Uuid]) -> Posting {
        let mut posting = self.claim(of, Uuid::new_v4(), 100);
        posting.claim.as_mut().unwrap().message_ids = Some(message_ids.to_vec());
        posting
    }

    pub fn ack(&self, of: &Agent, message_ids: &[Uuid], key: Option<&str>, print: u8) -> Posting {
        let acks = Acks {
            agent_id: of.id.parse().unwrap(),
            message_ids: message_ids.to_vec(),
            ack_body: None,
            proven: Vec::new(),
            needs_any: true,
        };
        self.posting(Vec::new(), Some(acks), keyed(of, key, print))
    }

    /// The same ack, with the proof of a probe.
    pub fn proven(&self, mut posting: Posting, probe: Uuid) -> Posting {
        posting.acks.as_mut().unwrap().proven.push(probe);
        posting
    }

    /// Puts a probe into a mailbox; its id.
    pub async fn probe(&self, of: &Agent) -> Uuid {
        let letter = Letter {
            ack_requested: true,
            probe_nonce: Some("nonce".into()),
            ..Letter::notice(of.id.parse().unwrap(), "a probe")
        };
        let message_id = letter.message_id;
        self.alone(self.posting(vec![letter], None, None)).await;
        message_id
    }

    /// The keys that are taken.
    pub async fn keys(&self) -> Vec<String> {
        sqlx::query_scalar("select key from idempotency order by key")
            .fetch_all(&self.house.db)
            .await
            .unwrap()
    }

    fn posting(&self, letters: Vec<Letter>, acks: Option<Acks>, key: Option<Key>) -> Posting {
        Posting { org_id: self.org_id, letters, acks, claim: None, only_with_ack: false, key, trace: None }
    }

    /// Counted by entries; the mailbox's own count must agree.
    pub async fn unacked_from_peers(&self, agent: &Agent) -> i64 {
        let (entries, counted) = unacked(&self.house, agent).await;
        assert_eq!(entries, i64::from(counted));
        entries
    }
}

fn keyed(agent: &Agent, key: Option<&str>, print: u8) -> Option<Key> {
    Some(Key {
        agent_id: agent.id.parse().unwrap(),
        namespace: "test",
        key: key?.to_owned(),
        fingerprint: [print; 32],
        answer: Box::new(|_| json!({})),
    })
}
