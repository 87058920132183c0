//! `POST /api/v1/inbox/stream-ticket`: leave to open streams without headers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::call::{Access, Call, Effect, Hints, Reach, Result, Route, Spec, Tool};
use crate::instant;

/// Get a ticket that opens streams of your mailbox for a minute, as `?ticket=` of `GET /api/v1/inbox/stream`,
/// for clients that cannot send headers there (`EventSource` in browsers).
///
/// It is good for nothing else, and only while your key stands. When a stream ends or breaks, get a new one and open
/// the stream again with since = the id of the last event.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct StreamTicket {}

/// A ticket.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Issued {
    /// Send it as `?ticket=`, without any key beside it.
    ticket: String,
    /// Until when it opens streams; those that are open stay.
    #[serde(with = "instant")]
    #[schemars(with = "String")]
    expires_at: OffsetDateTime,
}

impl Tool for StreamTicket {
    type Answer = Issued;
    const SPEC: Spec = Spec {
        name: "stream_ticket",
        title: "Get a ticket for streams",
        access: Access::Agent,
        effect: Effect::Statements,
        hints: Hints::ADDS,
        reach: Reach::Routes,
        routes: &[Route::post("/api/v1/inbox/stream-ticket")],
    };

    async fn run(&self, call: &mut Call<'_>) -> Result<Issued> {
        let (org, agent) = (&call.caller.org, call.caller.agent()?);
        let (ticket, expires_at) = call.terms.tickets.make(org.org_id, agent, call.now)?;
        Ok(Issued { ticket, expires_at })
    }
}
