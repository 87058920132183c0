//! What this deployment allows: the settings that tools and the gate judge by.

use super::Organization;
use super::seal::Seal;
use super::ticket::Tickets;
pub use crate::config::{Caps, Holds as HoldLimits};

/// Settings that calls are judged by. Zero means no limit.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The URL clients use, without a trailing slash.
    pub public_url: String,
    /// How full mailboxes get: counted are peers' messages that are not acked.
    pub caps: Caps,
    /// Registrations per hour and client network.
    pub register_limit: u32,
    /// Leave to open streams without headers.
    pub tickets: Tickets,
    /// Seals what is kept and never shown.
    pub seal: Seal,
}

impl Terms {
    /// Where an organization's doors are.
    pub fn root(&self, org: &Organization) -> String {
        self.root_of(&org.slug)
    }

    /// The same, for whoever knows the organization's slug alone.
    pub fn root_of(&self, slug: &str) -> String {
        match slug {
            Organization::DEFAULT => self.public_url.clone(),
            slug => format!("{}/o/{slug}", self.public_url),
        }
    }
}
