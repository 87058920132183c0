//! The message store that all toolsets share: what is posted, entries, leases, acks.
//!
//! A `message` is canonical and never changes; an `inbox_entry` is its place in one
//! recipient's mailbox. [`post`] is the one way in, for letters and acks alike.

mod post;
pub mod rules;

pub use post::{answer_of, post};
pub use rules::{Acks, Delivered, Key, Letter, Posted, Posting, Sender, Verdict};
