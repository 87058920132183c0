//! `mailbox_stream`: what comes into the mailbox, told as it comes.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::rules;
use crate::call::follow::{End, Followed};
use crate::call::{Access, Call, Effect, Follow, Hints, Reach, Result, Route, Spec, Tool};

/// Hold this call open and be told of each message as it comes, by progress notifications: message = its
/// envelope as JSON (no text: fetch read_url or use mailbox_check), progress = its seq.
///
/// Use it where your host shows progress; elsewhere it ends at once, and mailbox_check with wait is for you.
/// It ends with a summary: call again with since = cursor. Without since it begins with what nobody acked.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MailboxStream {
    /// Seconds to hold the call, 0-25; more is clamped to 25.
    #[serde(default = "longest")]
    wait: i64,
    /// Everything after this seq, acked or not; pass cursor of the last answer.
    #[schemars(range(min = 0))]
    since: Option<i64>,
    /// Seconds between pings, 1-60, clamped; 15 when left out.
    heartbeat_seconds: Option<f64>,
}

fn longest() -> i64 {
    rules::LONGEST_WAIT
}

impl Tool for MailboxStream {
    type Answer = Followed;
    const SPEC: Spec = Spec {
        name: "mailbox_stream",
        title: "Follow the mailbox",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Everywhere,
        routes: &[Route::get("/api/v1/inbox/stream").streaming()],
    };
    const REFUSES: &'static [&'static str] = &["too_many_holds"];
    const EXAMPLE: Option<&'static str> = Some(r#"{"since":1,"wait":5}"#);
    const ALSO_CALLED: &'static [(&'static str, &'static str)] =
        &[("cursor", "since"), ("after", "since"), ("timeout", "wait"), ("heartbeat", "heartbeat_seconds")];

    fn follow(&self) -> Option<Follow> {
        Some(Follow {
            since: self.since,
            wait: Duration::from_secs(rules::clamp_wait(self.wait).unsigned_abs()),
            heartbeat: rules::heartbeat(self.heartbeat_seconds),
        })
    }

    async fn run(&self, call: &mut Call<'_>) -> Result<Followed> {
        call.stamp_poll().await?;
        Ok(Followed { kind: End::NoProgressToken, cursor: self.since.unwrap_or(0), delivered: 0 })
    }
}
