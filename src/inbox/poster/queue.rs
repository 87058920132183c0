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
/// A batch takes nothing more once it holds so many letters and acks.
const WEIGHT: usize = 256;
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
    /// Those it touches.
    mailboxes: Vec<Mailbox>,
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
    weight: usize,
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
        for waiting in stubborn {
            self.count_in(waiting.home().0);
            self.stubborn.push_back(waiting);
        }
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
        self.count_in(home.0);
    }

    fn count_in(&mut self, org_id: Uuid) {
        self.orgs.entry(org_id).or_default().waiting += 1;
        self.waiting += 1;
    }

    fn count_out(&mut self, org_id: Uuid, taken: usize) {
        self.waiting -= taken;
        if let Some(org) = self.orgs.get_mut(&org_id) {
            org.waiting -= taken;
            if org.waiting == 0 {
                self.orgs.remove(&org_id);
            }
        }
    }

    /// Those of one mailbox that were put back too often.
    fn take_stubborn(&mut self, now: Instant) -> Option<Batch> {
        let (mut batch, mut home) = (Batch::new(Patience::Wait), None);
        if self.is_lane_waiting {
            return None;
        }
        for waiting in std::mem::take(&mut self.stubborn) {
            let is_of_home = home.is_none_or(|home| home == waiting.home());
            let goes = is_of_home && batch.has_room() && !waiting.is_blocked(&self.busy);
            if !goes && !waiting.is_given_up(now) {
                self.stubborn.push_back(waiting);
                continue;
            }
            self.count_out(waiting.home().0, 1);
            if goes {
                home = Some(waiting.home());
            }
            batch.add(waiting, now);
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
            let taken = self.take_of(org_id, &mut batch, now);
            in_vain = if taken > 0 { 0 } else { in_vain + 1 };
            if self.orgs.get(&org_id).is_some_and(|org| !org.turns.is_empty()) {
                self.turns.push_back(org_id);
            }
            self.count_out(org_id, taken);
        }
        batch.if_any()
    }

    /// One turn of an organization: of the first of its mailboxes that can go. Tells how many it gave.
    fn take_of(&mut self, org_id: Uuid, batch: &mut Batch, now: Instant) -> usize {
        let Some(org) = self.orgs.get_mut(&org_id) else { return 0 };
        for _ in 0..org.turns.len() {
            let Some(agent_id) = org.turns.pop_front() else { return 0 };
            let Some(slot) = self.slots.get_mut(&(org_id, agent_id)) else { continue };
            let mut taken = 0;
            while batch.has_room()
                && taken < TURN
                && let Some(waiting) = slot.pop_front_if(|waiting| !waiting.is_blocked(&self.busy))
            {
                taken += 1;
                batch.add(waiting, now);
            }
            match slot.is_empty() {
                true => _ = self.slots.remove(&(org_id, agent_id)),
                false => org.turns.push_back(agent_id),
            }
            if taken > 0 {
                return taken;
            }
        }
        0
    }
}

impl Waiting {
    pub fn new(posting: Posting, ticket: Ticket) -> Waiting {
        Waiting { mailboxes: posting.mailboxes(), posting, ticket }
    }

    fn home(&self) -> Mailbox {
        (self.posting.org_id, self.posting.home())
    }

    fn is_blocked(&self, busy: &HashSet<Mailbox>) -> bool {
        self.mailboxes.iter().any(|mailbox| busy.contains(mailbox))
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
        Batch { postings: Vec::new(), tickets: Vec::new(), hold, weight: 0 }
    }

    fn if_any(self) -> Option<Batch> {
        (!self.postings.is_empty()).then_some(self)
    }

    fn has_room(&self) -> bool {
        self.postings.len() < BATCH && self.weight < WEIGHT
    }

    /// Adds a posting, unless it has waited too long or nobody waits for it any more.
    fn add(&mut self, waiting: Waiting, now: Instant) {
        if waiting.is_given_up(now) {
            return waiting.ticket.give_up();
        }
        self.weight += waiting.posting.weight();
        self.hold.mailboxes.extend(waiting.mailboxes);
        self.postings.push(waiting.posting);
        self.tickets.push(waiting.ticket);
    }
}

#[cfg(test)]
mod tests;
