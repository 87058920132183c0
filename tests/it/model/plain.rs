//! The model: mailboxes as vectors, no database, no time, no concurrency.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Caps low enough to be met.
pub const MAILBOX_CAP: u32 = 4;
pub const SENDER_CAP: u32 = 2;

/// One message in its mailbox.
#[derive(Debug, Clone)]
pub struct Entry {
    pub id: String,
    pub sender: Option<usize>,
    pub counted: bool,
    pub ack_requested: bool,
    pub thread: Option<String>,
    pub in_reply_to: Option<String>,
    pub acked: bool,
    /// The run under whose live lease it is.
    pub lease: Option<String>,
}

/// All mailboxes, by agent; an entry's seq is its place plus one.
#[derive(Debug, Default)]
pub struct Model {
    pub boxes: Vec<Vec<Entry>>,
    /// Keys of calls that succeeded: agent, namespace, key → arguments and answer.
    pub keys: HashMap<(usize, &'static str, String), (Value, Value)>,
}

/// How the model expects a call to end.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Refused with this code.
    Refused(&'static str),
    /// An earlier answer, given again.
    Replayed(Value),
    /// Carried out.
    Done,
}

/// What an ack does.
#[derive(Debug, Default, PartialEq)]
pub struct Settled {
    pub acked: usize,
    pub already_acked: usize,
    pub unknown: Vec<String>,
    pub reply_skipped: Option<&'static str>,
    /// To whom, on which thread, in reply to what.
    pub reply: Option<(usize, String, String)>,
}

impl Entry {
    fn is_open(&self) -> bool {
        !self.acked
    }

    pub fn state(&self) -> &'static str {
        match (self.acked, &self.lease) {
            (true, _) => "acked",
            (false, Some(_)) => "claimed",
            (false, None) => "pending",
        }
    }
}

impl Model {
    /// The counts of a summary.
    pub fn counts(&self, agent: usize) -> Value {
        let count = |is: &dyn Fn(&&Entry) -> bool| self.boxes[agent].iter().filter(is).count();
        json!({
            "pending": count(&|entry| entry.state() == "pending"),
            "claimed": count(&|entry| entry.state() == "claimed"),
            "unacked": count(&|entry| entry.is_open() && entry.ack_requested),
            "acked_total": count(&|entry| entry.acked),
            "last_seq": self.boxes[agent].len(),
        })
    }

    /// What an earlier call with this key makes of this one.
    pub fn by_key(
        &self,
        agent: usize,
        space: &'static str,
        key: &Option<String>,
        arguments: &Value,
    ) -> Option<Expected> {
        let (first, answer) = self.keys.get(&(agent, space, key.clone()?))?;
        Some(match first == arguments {
            true => Expected::Replayed(answer.clone()),
            false => Expected::Refused("idempotency_conflict"),
        })
    }

    pub fn keep_key(
        &mut self,
        agent: usize,
        space: &'static str,
        key: Option<String>,
        arguments: Value,
        answer: Value,
    ) {
        if let Some(key) = key {
            self.keys.insert((agent, space, key), (arguments, answer));
        }
    }

    /// The cap that keeps a message out.
    pub fn full(&self, from: usize, to: usize) -> Option<Expected> {
        let counted: Vec<&Entry> =
            self.boxes[to].iter().filter(|entry| entry.is_open() && entry.counted).collect();
        let of_sender = counted.iter().filter(|entry| entry.sender == Some(from)).count();
        match (counted.len() as u32 >= MAILBOX_CAP, of_sender as u32 >= SENDER_CAP) {
            (true, _) => Some(Expected::Refused("mailbox_full")),
            (_, true) => Some(Expected::Refused("mailbox_full_per_sender")),
            _ => None,
        }
    }

    /// Whether a message is between these two; `Some(place)` when `from` received it.
    pub fn between(&self, id: &str, from: usize, to: usize) -> Option<Option<usize>> {
        let find = |agent: usize, sender: usize| {
            self.boxes[agent].iter().position(|entry| entry.id == id && entry.sender == Some(sender))
        };
        match (find(from, to), find(to, from)) {
            (Some(place), _) => Some(Some(place)),
            (None, Some(_)) => Some(None),
            (None, None) => None,
        }
    }

    /// The batch a run gets, and which of the asked-for ids it does not get.
    pub fn claim(
        &mut self,
        agent: usize,
        run: &str,
        limit: usize,
        only: Option<&[String]>,
    ) -> (Vec<usize>, Vec<String>) {
        let entries = &mut self.boxes[agent];
        let held = |entry: &Entry| entry.is_open() && entry.lease.as_deref() == Some(run);
        let mut batch: Vec<usize> = (0..entries.len()).filter(|place| held(&entries[*place])).collect();
        if batch.is_empty() {
            let asked = |entry: &Entry| only.is_none_or(|only| only.contains(&entry.id));
            let free = |entry: &Entry| entry.state() == "pending" && asked(entry);
            batch = (0..entries.len()).filter(|place| free(&entries[*place])).take(limit).collect();
            batch.iter().for_each(|place| entries[*place].lease = Some(run.to_owned()));
        }
        let mut skipped: Vec<String> = Vec::new();
        for id in only.unwrap_or_default() {
            if !batch.iter().any(|place| entries[*place].id == *id) && !skipped.contains(id) {
                skipped.push(id.clone());
            }
        }
        (batch, skipped)
    }

    pub fn expire(&mut self, agent: usize, run: &str) {
        for entry in &mut self.boxes[agent] {
            entry.lease.take_if(|lease| lease == run);
        }
    }

    /// Acks what is in the mailbox; `None` when nothing of it is.
    pub fn ack(&mut self, agent: usize, ids: &[String], with_reply: bool) -> Option<Settled> {
        let mut places: Vec<usize> = Vec::new();
        let mut settled = Settled::default();
        for id in ids {
            match self.boxes[agent].iter().position(|entry| entry.id == *id) {
                Some(place) => places.push(place),
                None if !settled.unknown.contains(id) => settled.unknown.push(id.clone()),
                None => {}
            }
        }
        places.sort_unstable();
        places.dedup();
        if places.is_empty() {
            return None;
        }
        let (open, acked): (Vec<usize>, Vec<usize>) =
            places.iter().partition(|place| self.boxes[agent][**place].is_open());
        (settled.acked, settled.already_acked) = (open.len(), acked.len());
        if with_reply {
            match self.reply(agent, &open) {
                Ok(reply) => settled.reply = Some(reply),
                Err(why) => settled.reply_skipped = Some(why),
            }
        }
        open.iter().for_each(|place| self.boxes[agent][*place].acked = true);
        Some(settled)
    }

    fn reply(&self, agent: usize, open: &[usize]) -> Result<(usize, String, String), &'static str> {
        let of_peers: Vec<&Entry> = open
            .iter()
            .map(|place| &self.boxes[agent][*place])
            .filter(|entry| entry.sender.is_some())
            .collect();
        let oldest = match (open, of_peers.first()) {
            ([], _) => return Err("already_acked"),
            (_, None) => return Err("system_notices"),
            (_, Some(oldest)) => oldest,
        };
        if of_peers.iter().any(|entry| entry.sender != oldest.sender) {
            return Err("several_senders");
        }
        let thread = oldest.thread.clone().unwrap_or_else(|| oldest.id.clone());
        Ok((oldest.sender.unwrap_or_default(), thread, oldest.id.clone()))
    }
}
