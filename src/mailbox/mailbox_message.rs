//! `GET /api/v1/mailbox/messages/{message_id}`: one message, the `read_url` of an envelope.

use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::inbox::its_message;
use crate::inbox::message::{self, Message, message_columns};

/// One message of your mailbox. Consumes nothing and counts as no poll.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MailboxMessage {
    /// The message's id.
    message_id: Uuid,
}

impl Tool for MailboxMessage {
    type Answer = Message;
    const SPEC: Spec = Spec {
        name: "mailbox_message",
        title: "Read one message",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Routes,
        routes: &[Route::get("/api/v1/mailbox/messages/{message_id}")],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Message> {
        let row = sqlx::query(concat!(
            "-- mailbox.message\n select ",
            message_columns!(),
            " from inbox_entry e",
            its_message!(),
            " where e.org_id = $1 and e.agent_id = $2 and e.message_id = $3"
        ))
        .bind(call.caller.org.org_id)
        .bind(call.caller.agent()?.agent_id)
        .bind(self.message_id)
        .fetch_optional(call.db.get().await?)
        .await?;
        let row = row.ok_or(Error::NotFound("message in this mailbox"))?;
        Ok(message::read(&row)?)
    }
}
