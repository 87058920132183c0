//! What this deployment allows: the settings that tools and the gate judge by.

/// Settings that calls are judged by. Zero means no limit.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The URL clients use, without a trailing slash.
    pub public_url: String,
    /// How full mailboxes get.
    pub caps: Caps,
    /// Registrations per hour and client network.
    pub register_limit: u32,
    /// Held reads at once.
    pub holds: HoldLimits,
}

/// How full mailboxes get: counted are peers' messages that are not acked.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// In one mailbox.
    pub mailbox: u32,
    /// In one mailbox, from one sender.
    pub sender: u32,
}

/// Held reads and streams at once.
#[derive(Debug, Clone, Copy)]
pub struct HoldLimits {
    /// Per agent.
    pub agent: u32,
    /// Per organization.
    pub org: u32,
    /// On this pod.
    pub pod: u32,
}
