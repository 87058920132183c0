//! What `in_reply_to` may name, and the ack that answering it implies.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::call::{Call, Error, Result};
use crate::inbox::Acks;

/// The ack that an answer implies: of a message that its recipient was asked to ack.
///
/// # Errors
/// `not_found` unless the message is of the caller and `peer`: unknown, foreign and
/// another party's messages are all alike.
pub(super) async fn acks(call: &mut Call<'_>, message_id: Uuid, peer: Uuid) -> Result<Option<Acks>> {
    let agent_id = call.caller.agent()?.agent_id;
    let asked =
        asks_for_ack(call.db.get().await?, call.caller.org.org_id, message_id, agent_id, peer).await?;
    let asked = asked.ok_or(Error::NotFound("message to reply to"))?;
    Ok(asked.then(|| Acks {
        agent_id,
        message_ids: vec![message_id],
        ack_body: None,
        proven: Vec::new(),
        needs_any: false,
    }))
}

/// Whether a message between these two asks `agent_id`, as its recipient, for an ack.
async fn asks_for_ack(
    db: &mut PgConnection,
    org_id: Uuid,
    message_id: Uuid,
    agent_id: Uuid,
    peer: Uuid,
) -> Result<Option<bool>> {
    let row = sqlx::query(
        "-- mailbox.asks_for_ack
         select ack_requested and recipient_agent_id = $3 from message
         where org_id = $1 and message_id = $2
           and ((sender_agent_id = $3 and recipient_agent_id = $4) or (sender_agent_id = $4 and recipient_agent_id = $3))",
    )
    .bind(org_id)
    .bind(message_id)
    .bind(agent_id)
    .bind(peer)
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
