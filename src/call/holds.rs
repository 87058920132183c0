//! How many reads are held open, per agent, per organization and on this pod.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::{Error, HoldLimits, Result};

/// Counts held reads of this pod. Cheap to clone.
#[derive(Clone)]
pub struct Holds(Arc<Inner>);

struct Inner {
    limits: HoldLimits,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    agents: HashMap<Uuid, u32>,
    orgs: HashMap<Uuid, u32>,
    all: u32,
}

/// The right to hold one read; given back when dropped.
pub struct Hold {
    holds: Holds,
    org_id: Uuid,
    agent_id: Uuid,
}

impl Holds {
    /// No reads held yet. A limit of zero is none.
    pub fn new(limits: HoldLimits) -> Holds {
        Holds(Arc::new(Inner { limits, counts: Mutex::default() }))
    }

    /// Takes a place, or tells whose places are all taken (`too_many_holds`).
    pub fn take(&self, org_id: Uuid, agent_id: Uuid) -> Result<Hold> {
        let limits = self.0.limits;
        let mut counts = self.counts();
        let over = |count: u32, limit: u32| limit > 0 && count >= limit;
        if over(counts.agents.get(&agent_id).copied().unwrap_or(0), limits.agent) {
            return Err(Error::TooManyHolds("for this agent"));
        }
        if over(counts.orgs.get(&org_id).copied().unwrap_or(0), limits.org) {
            return Err(Error::TooManyHolds("for this organization"));
        }
        if over(counts.all, limits.pod) {
            return Err(Error::TooManyHolds("on this server"));
        }
        *counts.agents.entry(agent_id).or_default() += 1;
        *counts.orgs.entry(org_id).or_default() += 1;
        counts.all += 1;
        metrics::gauge!(crate::telemetry::HELD_READS).increment(1);
        Ok(Hold { holds: self.clone(), org_id, agent_id })
    }

    /// How many reads are held now.
    pub fn open(&self) -> u32 {
        self.counts().all
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut counts = self.holds.counts();
        give_back(&mut counts.agents, self.agent_id);
        give_back(&mut counts.orgs, self.org_id);
        counts.all -= 1;
        metrics::gauge!(crate::telemetry::HELD_READS).decrement(1);
    }
}

fn give_back(counts: &mut HashMap<Uuid, u32>, id: Uuid) {
    if let Some(count) = counts.get_mut(&id) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_per_agent_organization_and_pod_and_given_back() {
        let holds = Holds::new(HoldLimits { agent: 2, org: 3, pod: 4 });
        let (org, ada, bob) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
        let first = holds.take(org, ada).unwrap();
        let _second = holds.take(org, ada).unwrap();
        assert!(matches!(holds.take(org, ada), Err(Error::TooManyHolds("for this agent"))));
        let _third = holds.take(org, bob).unwrap();
        assert!(matches!(holds.take(org, bob), Err(Error::TooManyHolds("for this organization"))));
        let _fourth = holds.take(Uuid::now_v7(), bob).unwrap();
        assert!(matches!(
            holds.take(Uuid::now_v7(), Uuid::now_v7()),
            Err(Error::TooManyHolds("on this server"))
        ));
        drop(first);
        holds.take(org, ada).unwrap();
    }
}
