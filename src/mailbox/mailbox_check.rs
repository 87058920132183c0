//! `mailbox_check`: what came after a cursor, and how full the mailbox is.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::{rows, rules};
use crate::call::{Access, Call, Caller, Effect, Hints, Reach, Result, Route, Spec, Tool};
use crate::inbox::its_message;
use crate::inbox::message::{self, Message, message_columns};
use crate::page;

/// Read your mailbox: every message after a cursor, oldest first, with counts and the next cursor.
///
/// Use it to look at mail and to wait for it. Reading consumes nothing: to work on messages lease
/// them with mailbox_claim, then mailbox_ack. With wait the call is held until mail arrives, at no
/// cost: an empty answer means call again with since = next_since and wait, never sleep and guess.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MailboxCheck {
    /// Seconds to wait for mail, 0-25; more is clamped to 25.
    #[serde(default)]
    wait: i64,
    /// Most messages on this page.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 100))]
    limit: i64,
    /// Messages with a seq above this; pass next_since of the last answer.
    #[serde(default)]
    #[schemars(range(min = 0))]
    since: i64,
}

fn fifty() -> i64 {
    50
}

/// One page and the counts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Checked {
    /// Oldest first.
    messages: Vec<Message>,
    /// Pass as since in the next call.
    next_since: i64,
    /// The same as next_since.
    next_cursor: i64,
    /// Messages nobody works on.
    pending: i64,
    /// Messages under a live lease.
    claimed: i64,
    /// Messages not acked whose sender asked for an ack.
    unacked: i64,
    /// The wait this call was given, in seconds.
    wait_applied: i64,
    /// How long it was held, in milliseconds.
    waited_ms: u64,
    /// Seconds to leave before the next call: 0 = call again at once, with wait.
    retry_after: u64,
    /// True: since was beyond the newest message; go on from next_since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cursor_ahead: bool,
    /// How to drain the mailbox.
    consumer_recipe: &'static str,
}

/// Bytes kept for what a page holds beside its messages.
const FRAME: usize = 1024;
/// Seconds to leave after an empty answer that was not held.
const IDLE_RETRY: u64 = 5;

impl Tool for MailboxCheck {
    type Answer = Checked;
    const SPEC: Spec = Spec {
        name: "mailbox_check",
        title: "Read the mailbox",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Everywhere,
        routes: &[Route::get("/api/v1/mailbox/messages")],
    };
    const REFUSES: &'static [&'static str] = &["too_many_holds"];
    const EXAMPLE: Option<&'static str> = Some(r#"{"since":1,"wait":25}"#);
    const ALSO_CALLED: &'static [(&'static str, &'static str)] = &[
        ("cursor", "since"),
        ("after", "since"),
        ("next_since", "since"),
        ("timeout", "wait"),
        ("max", "limit"),
    ];

    fn patience(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.wait_applied().unsigned_abs()))
    }

    fn awaits(checked: &Checked) -> Option<i64> {
        (checked.messages.is_empty() && !checked.cursor_ahead).then_some(checked.next_since)
    }

    async fn run(&self, call: &mut Call<'_>) -> Result<Checked> {
        if call.held_for.is_none() {
            call.stamp_poll().await?;
        }
        let summary = rows::summary(call.db.get().await?, call.caller).await?;
        let cursor_ahead = self.since > summary.last_seq;
        let messages = match cursor_ahead {
            true => Vec::new(),
            false => after(call.db.get().await?, call.caller, self.since, self.limit).await?,
        };
        let next_since = match messages.last() {
            Some(last) => last.seq,
            None => self.since.min(summary.last_seq),
        };
        let is_idle = messages.is_empty() && self.wait_applied() == 0 && !cursor_ahead;
        Ok(Checked {
            next_since,
            next_cursor: next_since,
            messages,
            pending: summary.pending,
            claimed: summary.claimed,
            unacked: summary.unacked,
            wait_applied: self.wait_applied(),
            waited_ms: call.held_for.map_or(0, |held| held.as_millis() as u64),
            retry_after: if is_idle { IDLE_RETRY } else { 0 },
            cursor_ahead,
            consumer_recipe: summary.consumer_recipe,
        })
    }
}

impl MailboxCheck {
    fn wait_applied(&self) -> i64 {
        rules::clamp_wait(self.wait)
    }
}

/// One page of messages after `since`, bounded by rows and by bytes.
async fn after(db: &mut PgConnection, caller: &Caller, since: i64, limit: i64) -> Result<Vec<Message>> {
    let rows = sqlx::query(concat!(
        "-- mailbox.after\n select ",
        message_columns!(),
        " from inbox_entry e",
        its_message!(),
        " where e.org_id = $1 and e.agent_id = $2 and e.seq > $3 order by e.seq limit $4"
    ))
    .bind(caller.org.org_id)
    .bind(caller.agent()?.agent_id)
    .bind(since)
    .bind(limit)
    .fetch_all(db)
    .await?;
    let mut messages = rows.iter().map(message::read).collect::<sqlx::Result<Vec<_>>>()?;
    messages.truncate(page::fitting(&messages, FRAME)?);
    Ok(messages)
}
