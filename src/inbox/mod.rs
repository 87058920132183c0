//! The message store that all toolsets share: what is posted, entries, leases, acks.
//!
//! A `message` is canonical and never changes; an `inbox_entry` is its place in one
//! recipient's mailbox. [`post()`] is the one way in, for letters, acks and claims alike;
//! `envelopes` tells what came, without its text.

/// Joins the message `m` of `inbox_entry e`, in SQL. By its own key: `offset 0` keeps a plan made while the tables are
/// young from walking all messages instead.
macro_rules! its_message {
    () => {
        " cross join lateral (
            select * from message m where m.org_id = e.org_id and m.message_id = e.message_id offset 0) m "
    };
}
pub(crate) use its_message;

mod claims;
pub(crate) mod envelopes;
mod hooks;
mod look;
pub mod message;
mod polls;
mod post;
pub(crate) mod poster;
mod posting;
mod rules;
mod settle;
mod write;

pub use claims::{Claim, Leased};
pub use polls::Polls;
pub use post::{answer_of, post, post_alone};
pub use poster::Poster;
pub use posting::{Acks, Care, Judged, Key, Letter, Mailbox, Patience, Posted, Posting, Sender, Verdict};
