//! Writes what was judged to go in: keys, messages, entries and the mailboxes' new state, in one statement.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::posting::{Delivered, Key, Letter, Mailbox, Posted, Posting, Verdict};

/// What of a batch is to be stored.
pub(super) struct Stored<'a> {
    keys: Vec<Used<'a>>,
    pub letters: Vec<Line<'a>>,
}

/// A key that is used from now on, with the answer that its retries get.
struct Used<'a> {
    org_id: Uuid,
    key: &'a Key,
    answer: String,
}

/// A letter in its place, and the posting that it is part of.
pub(super) struct Line<'a> {
    pub posting: &'a Posting,
    pub letter: &'a Letter,
    pub delivered: Delivered,
}

/// What a mailbox gets.
#[derive(Default)]
struct Growth {
    last_seq: i64,
    open: i32,
    counted: i32,
    ack_wanted: i32,
}

impl<'a> Stored<'a> {
    pub(super) fn of(postings: &'a [Posting], verdicts: &[Verdict]) -> Stored<'a> {
        let mut stored = Stored { keys: Vec::new(), letters: Vec::new() };
        for (posting, verdict) in postings.iter().zip(verdicts) {
            let Verdict::Posted(posted) = verdict else { continue };
            stored.add(posting, posted);
        }
        stored
            .keys
            .sort_unstable_by_key(|used| (used.org_id, used.key.agent_id, used.key.namespace, &used.key.key));
        stored
    }

    fn add(&mut self, posting: &'a Posting, posted: &Posted) {
        let pairs = posting.letters.iter().zip(&posted.delivered);
        self.letters.extend(pairs.map(|(letter, delivered)| Line { posting, letter, delivered: *delivered }));
        if let Some(key) = &posting.key {
            let answer = (key.answer)(posted).to_string();
            self.keys.push(Used { org_id: posting.org_id, key, answer });
        }
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// A violation of `idempotency_pkey` when a key was used before.
    pub(super) async fn write(&self, db: &mut PgConnection) -> sqlx::Result<()> {
        if self.keys.is_empty() && self.letters.is_empty() {
            return Ok(());
        }
        let (boxes, growths): (Vec<Mailbox>, Vec<Growth>) = self.growths().into_iter().unzip();
        sqlx::query(WRITE)
            .bind(column(&self.keys, |used| used.org_id))
            .bind(column(&self.keys, |used| used.key.agent_id))
            .bind(column(&self.keys, |used| used.key.namespace))
            .bind(column(&self.keys, |used| used.key.key.as_str()))
            .bind(column(&self.keys, |used| used.key.fingerprint.as_slice()))
            .bind(column(&self.keys, |used| used.answer.as_str()))
            .bind(column(&self.letters, |line| line.posting.org_id))
            .bind(column(&self.letters, |line| line.letter.to))
            .bind(column(&self.letters, |line| line.delivered.seq))
            .bind(column(&self.letters, |line| line.letter.message_id))
            .bind(sparse(&self.letters, |line| line.letter.sender.agent_id()))
            .bind(column(&self.letters, |line| line.letter.sender.name()))
            .bind(column(&self.letters, |line| line.letter.message_type.as_str()))
            .bind(column(&self.letters, |line| line.letter.body.as_str()))
            .bind(sparse(&self.letters, |line| line.letter.parts.as_deref()))
            .bind(sparse(&self.letters, |line| line.letter.thread_id))
            .bind(sparse(&self.letters, |line| line.letter.in_reply_to))
            .bind(column(&self.letters, |line| line.letter.ack_requested))
            .bind(sparse(&self.letters, |line| line.letter.ack_deadline))
            .bind(sparse(&self.letters, |line| line.letter.probe_nonce.as_deref()))
            .bind(column(&self.letters, |line| line.letter.counted))
            .bind(self.letters.first().map(|line| line.delivered.created_at))
            .bind(column(&boxes, |mailbox| mailbox.0))
            .bind(column(&boxes, |mailbox| mailbox.1))
            .bind(column(&growths, |growth| growth.last_seq))
            .bind(column(&growths, |growth| growth.open))
            .bind(column(&growths, |growth| growth.counted))
            .bind(column(&growths, |growth| growth.ack_wanted))
            .execute(db)
            .await?;
        Ok(())
    }

    fn growths(&self) -> BTreeMap<Mailbox, Growth> {
        let mut growths: BTreeMap<Mailbox, Growth> = BTreeMap::new();
        for line in &self.letters {
            let growth = growths.entry(line.mailbox()).or_default();
            growth.last_seq = growth.last_seq.max(line.delivered.seq);
            growth.open += 1;
            growth.counted += i32::from(line.letter.counted);
            growth.ack_wanted += i32::from(line.letter.ack_requested);
        }
        growths
    }
}

impl Line<'_> {
    pub(super) fn mailbox(&self) -> Mailbox {
        (self.posting.org_id, self.letter.to)
    }
}

fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// A column that is mostly null; where it is so throughout, nothing is sent.
fn sparse<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> Option<T>) -> Vec<Option<T>> {
    let column = column(rows, of);
    if column.iter().any(Option::is_some) { column } else { Vec::new() }
}

/// Keys go in by the order of their text: two batches that meet on one wait for each other one way only. They are the
/// main statement, which Postgres carries out first: where one is taken, nothing else was written in vain.
///
/// `unnest` fills up shorter arrays with nulls. All letters of a batch are of one moment.
const WRITE: &str = "-- inbox.write
    with stored as (
        insert into message (org_id, message_id, sender_agent_id, sender_name, recipient_agent_id, message_type, body,
            parts, thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, created_at)
        select org_id, message_id, sender_agent_id, sender_name, agent_id, message_type, body,
            parts::json, thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce, $22::timestamptz
        from unnest($7::uuid[], $10::uuid[], $11::uuid[], $12::text[], $8::uuid[], $13::text[], $14::text[],
                $15::text[], $16::uuid[], $17::uuid[], $18::bool[], $19::timestamptz[], $20::text[])
            as l(org_id, message_id, sender_agent_id, sender_name, agent_id, message_type, body,
                parts, thread_id, in_reply_to, ack_requested, ack_deadline, probe_nonce)
    ), entered as (
        insert into inbox_entry (org_id, agent_id, seq, message_id, sender_agent_id, counted, ack_requested)
        select * from unnest($7::uuid[], $8::uuid[], $9::bigint[], $10::uuid[], $11::uuid[], $21::bool[], $18::bool[])
    ), moved as (
        update mailbox m set last_seq = g.last_seq, open = m.open + g.open, counted = m.counted + g.counted,
            ack_wanted = m.ack_wanted + g.ack_wanted
        from unnest($23::uuid[], $24::uuid[], $25::bigint[], $26::int[], $27::int[], $28::int[])
            as g(org_id, agent_id, last_seq, open, counted, ack_wanted)
        where m.org_id = g.org_id and m.agent_id = g.agent_id
    )
    insert into idempotency (org_id, agent_id, namespace, key, fingerprint, answer)
    select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::text[])";
