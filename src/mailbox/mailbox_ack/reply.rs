//! Whether an ack's reply_text can be sent, to whom, and on which thread.

use uuid::Uuid;

use super::ReplySkipped;
use super::named::Named;
use crate::call::{Call, Result};
use crate::inbox::{Letter, Sender};

/// What becomes of reply_text.
pub(super) enum Reply {
    /// There is none.
    NotAsked,
    /// The ack counts, but nobody gets it.
    Skipped(ReplySkipped),
    /// The one peer gets it.
    Sent(Box<Letter>),
}

/// Chooses the recipient: the one peer that sent what is still open. Notices beside its messages
/// are only acked.
pub(super) fn choose(call: &Call<'_>, named: &[Named], text: Option<&str>) -> Result<Reply> {
    let Some(text) = text else { return Ok(Reply::NotAsked) };
    let (oldest, peer) = match one_peer(named) {
        Ok(found) => found,
        Err(why) => return Ok(Reply::Skipped(why)),
    };
    Ok(Reply::Sent(Box::new(letter(call, peer, oldest, text)?)))
}

/// The oldest open message of the one peer that sent any, and that peer.
fn one_peer(named: &[Named]) -> std::result::Result<(&Named, Uuid), ReplySkipped> {
    let mut open = named.iter().filter(|message| !message.is_acked).peekable();
    if open.peek().is_none() {
        return Err(ReplySkipped::AlreadyAcked);
    }
    let mut from_peers = open.filter_map(|message| Some((message, message.sender?)));
    let (oldest, peer) = from_peers.next().ok_or(ReplySkipped::SystemNotices)?;
    match from_peers.all(|(_, other)| other == peer) {
        true => Ok((oldest, peer)),
        false => Err(ReplySkipped::SeveralSenders),
    }
}

/// On the thread all its messages share, else the oldest's, else on the oldest itself: always the oldest's.
fn letter(call: &Call<'_>, to: Uuid, oldest: &Named, text: &str) -> Result<Letter> {
    let sender = call.caller.agent()?;
    Ok(Letter {
        to,
        message_id: Uuid::now_v7(),
        sender: Sender::Agent { agent_id: sender.agent_id, name: sender.agent_name.clone() },
        message_type: "agent_reply".into(),
        body: text.to_owned(),
        parts: None,
        thread_id: oldest.thread_id.or(Some(oldest.message_id)),
        in_reply_to: Some(oldest.message_id),
        ack_requested: false,
        ack_deadline: None,
        probe_nonce: None,
        counted: false,
        heeds_policy: true,
    })
}
