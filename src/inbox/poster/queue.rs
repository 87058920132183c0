//! What waits to be posted: by organization and mailbox, in turn.
//!
//! Organizations take turns, and so do the mailboxes of one: nobody's flood makes others wait for
//! more than their own turn. Postings of one mailbox go in the order they came in, but for those
//! that had to be put back.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::{Error, QueueFull, Result};
use crate::inbox::posting::{Mailbox, Patience, Posting, Verdict};

/// Most postings of one batch.
const BATCH: usize = 64;
/// Most postings a mailbox gives in one turn.
const TURN: usize = 8;
/// After so many tries a posting waits for what another pod holds, alone with those of its mailbox.
const TRIES: u8 = 2;
/// Most postings that wait, of all organizations and of one.
const MOST: usize = 16_384;
const MOST_OF_ONE: usize = 8_192;

/// A posting on its way.
pub(super) struct Waiting {
    pub posting: Posting,
    pub ticket: Ticket,
}

/// Who waits for a posting's verdict, and for how long.
pub(super) struct Ticket {
    pub answer: oneshot::Sender<Result<Verdict>>,
    /// Not begun by then, it is given up.
    pub until: Instant,
    /// How often it was left out or failed.
    pub tries: u8,
}

/// What a lane carries out together.
pub(super) struct Batch {
    pub postings: Vec<Posting>,
    pub tickets: Vec<Ticket>,
    pub hold: Hold,
}

/// What a batch keeps from the other lanes.
pub(super) struct Hold {
    pub patience: Patience,
    mailboxes: HashSet<Mailbox>,
}

#[derive(Default)]
pub(super) struct Queue {
    /// Postings by the first mailbox they touch; no slot is empty.
    slots: HashMap<Mailbox, VecDeque<Waiting>>,
    orgs: HashMap<Uuid, Org>,
    /// Organizations with a slot, next first.
    turns: VecDeque<Uuid>,
    /// Postings that were put back too often: one lane at a time waits for what they need.
    stubborn: VecDeque<Waiting>,
    is_lane_waiting: bool,
    /// Stubborn ones went last: those of the same mailbox must not wait for them for ever.
    is_turn_of_others: bool,
    /// Mailboxes in a lane.
    busy: HashSet<Mailbox>,
    waiting: usize,
}

#[derive(Default)]
struct Org {
    /// Mailboxes with a slot, next first.
    turns: VecDeque<Uuid>,
    waiting: usize,
}

impl Queue {
    /// Puts a posting behind the others of its mailbox, unless too many wait.
    pub fn push(&mut self, waiting: Waiting) -> Result<(), QueueFull> {
        let of_org = self.orgs.get(&waiting.posting.org_id).map_or(0, |org| org.waiting);
        if self.waiting >= MOST || of_org >= MOST_OF_ONE {
            return Err(QueueFull);
        }
        self.enter(waiting, VecDeque::push_back);
        Ok(())
    }

    /// Whether anything waits.
    pub fn has_any(&self) -> bool {
        !self.turns.is_empty() || !self.stubborn.is_empty()
    }

    /// The next batch, if anything can go. Its mailboxes are busy until it is [settled](Queue::settle).
    pub fn take(&mut self, now: Instant) -> Option<Batch> {
        let batch = match self.is_turn_of_others {
            true => self.take_in_turn(now).or_else(|| self.take_stubborn(now)),
            false => self.take_stubborn(now).or_else(|| self.take_in_turn(now)),
        }?;
        let waits = batch.hold.patience == Patience::Wait;
        self.is_turn_of_others = waits;
        self.is_lane_waiting |= waits;
        self.busy.extend(&batch.hold.mailboxes);
        Some(batch)
    }

    /// Gives the mailboxes of a batch free, and puts back in front what was not carried out.
    pub fn settle(&mut self, hold: &Hold, back: Vec<Waiting>) {
        self.busy.retain(|mailbox| !hold.mailboxes.contains(mailbox));
        if hold.patience == Patience::Wait {
            self.is_lane_waiting = false;
        }
        let (stubborn, others): (Vec<_>, Vec<_>) =
            back.into_iter().partition(|waiting| waiting.ticket.tries >= TRIES);
        self.stubborn.extend(stubborn);
        for waiting in others.into_iter().rev() {
            self.enter(waiting, VecDeque::push_front);
        }
    }

    fn enter(&mut self, waiting: Waiting, put: impl Fn(&mut VecDeque<Waiting>, Waiting)) {
        let home = waiting.home();
        let org = self.orgs.entry(home.0).or_default();
        let slot = self.slots.entry(home).or_default();
        if slot.is_empty() {
            if org.turns.is_empty() {
                self.turns.push_back(home.0);
            }
            org.turns.push_back(home.1);
        }
        put(slot, waiting);
        org.waiting += 1;
        self.waiting += 1;
    }

    /// Those of one mailbox that were put back too often.
    fn take_stubborn(&mut self, now: Instant) -> Option<Batch> {
        let (mut batch, mut home) = (Batch::new(Patience::Wait), None);
        if self.is_lane_waiting {
            return None;
        }
        for waiting in std::mem::take(&mut self.stubborn) {
            let is_of_home = home.is_none_or(|home| home == waiting.home());
            if waiting.is_given_up(now) {
                waiting.ticket.give_up();
            } else if is_of_home && batch.has_room() && !waiting.is_blocked(&self.busy) {
                home = Some(waiting.home());
                batch.add(waiting);
            } else {
                self.stubborn.push_back(waiting);
            }
        }
        batch.if_any()
    }

    /// One turn after the other, until the batch is full or nothing more can go.
    fn take_in_turn(&mut self, now: Instant) -> Option<Batch> {
        let (mut batch, mut in_vain) = (Batch::new(Patience::Skip), 0);
        while batch.has_room()
            && in_vain < self.turns.len()
            && let Some(org_id) = self.turns.pop_front()
        {
            let before = self.waiting;
            self.take_of(org_id, &mut batch, now);
            in_vain = if self.waiting < before { 0 } else { in_vain + 1 };
            match self.orgs.get(&org_id).is_some_and(|org| !org.turns.is_empty()) {
                true => self.turns.push_back(org_id),
                false => _ = self.orgs.remove(&org_id),
            }
        }
        batch.if_any()
    }

    /// One turn of an organization: of the first of its mailboxes that can go.
    fn take_of(&mut self, org_id: Uuid, batch: &mut Batch, now: Instant) {
        let Some(org) = self.orgs.get_mut(&org_id) else { return };
        for _ in 0..org.turns.len() {
            let Some(agent_id) = org.turns.pop_front() else { return };
            let Some(slot) = self.slots.get_mut(&(org_id, agent_id)) else { continue };
            let before = slot.len();
            while batch.has_room()
                && before - slot.len() < TURN
                && let Some(waiting) = slot.pop_front_if(|waiting| !waiting.is_blocked(&self.busy))
            {
                match waiting.is_given_up(now) {
                    true => waiting.ticket.give_up(),
                    false => batch.add(waiting),
                }
            }
            let taken = before - slot.len();
            match slot.is_empty() {
                true => _ = self.slots.remove(&(org_id, agent_id)),
                false => org.turns.push_back(agent_id),
            }
            org.waiting -= taken;
            self.waiting -= taken;
            if taken > 0 {
                return;
            }
        }
    }
}

impl Waiting {
    pub fn new(posting: Posting, answer: oneshot::Sender<Result<Verdict>>, until: Instant) -> Waiting {
        Waiting { posting, ticket: Ticket { answer, until, tries: 0 } }
    }

    fn home(&self) -> Mailbox {
        (self.posting.org_id, self.posting.home())
    }

    fn is_blocked(&self, busy: &HashSet<Mailbox>) -> bool {
        !busy.is_empty() && self.posting.mailboxes().iter().any(|mailbox| busy.contains(mailbox))
    }

    /// Whether it has waited too long, or nobody waits for it any more.
    fn is_given_up(&self, now: Instant) -> bool {
        self.ticket.until <= now || self.ticket.answer.is_closed()
    }
}

impl Ticket {
    /// Tells the caller that nothing was stored.
    pub fn give_up(self) {
        let _ = self.answer.send(Err(Error::unavailable("the mailbox could not be reached in time")));
    }
}

impl Batch {
    fn new(patience: Patience) -> Batch {
        let hold = Hold { patience, mailboxes: HashSet::new() };
        Batch { postings: Vec::new(), tickets: Vec::new(), hold }
    }

    fn if_any(self) -> Option<Batch> {
        (!self.postings.is_empty()).then_some(self)
    }

    fn has_room(&self) -> bool {
        self.postings.len() < BATCH
    }

    fn add(&mut self, waiting: Waiting) {
        self.hold.mailboxes.extend(waiting.posting.mailboxes());
        self.postings.push(waiting.posting);
        self.tickets.push(waiting.ticket);
    }
}

#[cfg(test)]
mod tests;
