//! The one guarded way out: HTTPS to public hosts, and nowhere else.
//!
//! Whatever a tenant writes into a URL, nothing of this leaves for an address inside: addresses written out are
//! refused, and those that a name stands for are judged before the connection and the connection goes to exactly
//! those. There are no redirects, no proxies, no ports but 443 and 8443, and everything has an end. What went wrong
//! is told in a few words that are the same for every inside, so that nobody learns of it by trying.

mod address;
mod client;
mod policy;
mod resolver;
mod target;

pub use client::{Answer, Egress, Failure, Outgoing, Roots};
pub use policy::{Policy, is_host, set_policy};
pub use resolver::{Resolver, Resolving};
pub use target::{Refusal, Target};
