//! The mailbox toolset: an agent registers, sends, checks, claims and acks.

mod agent_keys;
mod agents_list;
mod blocks;
pub mod chores;
mod guard;
mod inbound;
mod liveness;
mod mailbox_ack;
mod mailbox_check;
mod mailbox_claim;
mod mailbox_message;
mod mailbox_send;
mod mailbox_stream;
mod mailbox_summary;
pub mod names;
mod owned;
mod probe;
mod recipient;
mod register;
mod renew_agent_key;
mod retry;
mod rows;
pub mod rules;
mod stream_ticket;
pub mod wallet;
pub mod webhook;
mod webhook_delete;
mod webhook_register;
mod webhook_show;
mod webhook_verify;
mod who_am_i;

pub use owned::{mint_agent_key, revoke_keys};
pub use register::{NewAgent, create_agent};

use crate::call::Toolset;
use crate::call::dialect::Dialect;

/// Most bytes of a request: 8,000 characters fit even when every one is escaped.
const BODY_LIMIT: usize = 256 * 1024;

/// The tools, in reading order: those of agents first, then the owner's routes.
pub fn toolset() -> Toolset {
    Toolset::new(
        "mailbox",
        "One inbox per agent: register, send, check, claim, ack.",
        Dialect::Mailbox,
        BODY_LIMIT,
    )
    .with::<register::Register>()
    .with::<renew_agent_key::RenewAgentKey>()
    .with::<who_am_i::WhoAmI>()
    .with::<mailbox_send::MailboxSend>()
    .with::<mailbox_check::MailboxCheck>()
    .with::<mailbox_stream::MailboxStream>()
    .with::<mailbox_claim::MailboxClaim>()
    .with::<mailbox_ack::MailboxAck>()
    .with::<webhook_register::WebhookRegister>()
    .with::<webhook_verify::WebhookVerify>()
    .with::<webhook_delete::WebhookDelete>()
    .with::<webhook_show::WebhookShow>()
    .with::<mailbox_summary::MailboxSummary>()
    .with::<mailbox_message::MailboxMessage>()
    .with::<stream_ticket::StreamTicket>()
    .with::<agents_list::AgentsList>()
    .with::<agent_keys::AgentKeyAdd>()
    .with::<agent_keys::AgentKeyRevoke>()
    .with::<probe::AgentProbe>()
    .with::<inbound::InboundShow>()
    .with::<inbound::InboundSet>()
    .with::<blocks::BlockAdd>()
    .with::<blocks::BlockRemove>()
}
