//! A stream for clients that see progress: notes on the way, and a summary at its end.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::Frame;
use crate::call::dispatch::{Dispatch, Job};
use crate::call::progress::Note;
use crate::call::registry::Ran;
use crate::call::{Error, Follow, Result};

/// How following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// wait is over.
    Timeout,
    /// The key stands no more.
    Revoked,
    /// The server is being replaced.
    Drain,
    /// Nothing could be streamed to this client: read with mailbox_check.
    NoProgressToken,
}

/// How a stream ended, and where to go on.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Followed {
    /// timeout or drain: call again with since = cursor. revoked: the key stands no more. no_progress_token:
    /// nothing was streamed, use mailbox_check.
    pub kind: End,
    /// Pass as since in the next call.
    pub cursor: i64,
    /// How many envelopes were streamed.
    pub delivered: u64,
}

impl Dispatch {
    /// Follows for a client that sees progress, and answers how it ended.
    pub(in crate::call) async fn follow_through(
        self: &Arc<Self>,
        job: &Arc<Job>,
        follow: Follow,
    ) -> Result<Ran> {
        let progress = &job.progress;
        let mut follower = self.follower(job, follow.since, Some(follow.wait), follow.heartbeat).await?;
        let (mut delivered, mut pings) = (0, 0_u32);
        let kind = loop {
            match follower.next().await {
                Some(Frame::Mail(letters)) => {
                    for told in letters {
                        let note =
                            Note { progress: told.seq as f64, total: None, message: Some(told.envelope) };
                        progress.tell(note).await;
                        delivered += 1;
                    }
                }
                Some(Frame::Ping) => {
                    pings += 1;
                    progress.tell(ping(follower.cursor(), pings)).await;
                }
                Some(Frame::Ended(end)) => break end,
                None => break End::Timeout,
            }
            if follower.was_ahead {
                // As in a check: who is ahead is told at once where the mailbox stands.
                break End::Timeout;
            }
        };
        let followed = Followed { kind, cursor: follower.cursor(), delivered };
        let answer = serde_json::to_string(&followed).map_err(Error::internal)?;
        Ok(Ran { answer, replayed: false, awaits: None })
    }
}

/// A sign of life between the last message's progress and the next one's.
fn ping(cursor: i64, count: u32) -> Note {
    let fraction = f64::from(count) / f64::from(count + 1);
    let message = json!({ "type": "ping", "cursor": cursor }).to_string();
    Note { progress: cursor as f64 + fraction, total: None, message: Some(message) }
}
