//! The message store that all toolsets share: what is posted, entries, leases, acks.
//!
//! A `message` is canonical and never changes; an `inbox_entry` is its place in one
//! recipient's mailbox. [`post()`] is the one way in, for letters and acks alike.

pub(crate) mod envelopes;
mod look;
mod post;
pub(crate) mod poster;
mod posting;
mod rules;
mod write;

pub use post::{answer_of, post};
pub use poster::Poster;
pub use posting::{Acks, Key, Letter, Patience, Posted, Posting, Sender, Verdict};
