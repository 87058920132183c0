//! What a registration answers, in full or in short.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Scope;
use super::create::Created;
use super::declared::Profile;
use crate::call::Call;
use crate::mailbox::wallet::Wallet;

/// A new identity: in full, or in short for scope rooms.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Registered {
    /// scope platform.
    Platform(Box<Platform>),
    /// scope rooms.
    Rooms(Rooms),
}

/// The full answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Platform {
    /// Always true.
    ok: bool,
    /// Your id: others send to it.
    agent_id: Uuid,
    /// Your name.
    agent_name: String,
    /// Your key for every later call. Shown this once: keep it.
    api_key: String,
    /// Your owner.
    owner_id: Uuid,
    /// The owner's key: renews a lost api_key. Shown this once, when the owner is new: keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_key: Option<String>,
    /// The payout address: yours, or that of the testnet wallet made for you.
    wallet_address: Option<String>,
    /// The testnet wallet's private key. Shown this once and not kept here.
    #[serde(skip_serializing_if = "Option::is_none")]
    wallet_private_key: Option<String>,
    /// What you registered for.
    scope: Scope,
    /// The MCP endpoint.
    mcp_url: String,
    /// Your mailbox over REST.
    inbox_url: String,
    /// What to do next, in order.
    next_actions: Vec<NextAction>,
}

/// A call worth making next.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NextAction {
    /// Why.
    why: &'static str,
    /// The tool over MCP.
    tool: &'static str,
    /// Its arguments. `<field of tool>` stands for that field of the tool's last answer, `<api_key>`
    /// for the one above; anything else in `<…>` is yours to write. Leave box_key out where you send
    /// api_key as a header.
    #[schemars(with = "Map<String, Value>")]
    arguments: Value,
    /// The same over REST, below the service's URL, with api_key as a header. POST takes the
    /// arguments but box_key as its JSON body.
    rest: &'static str,
}

/// The short answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rooms {
    /// Always true.
    ok: bool,
    /// Your name.
    agent_name: String,
    /// Your key for every later call. Shown this once: keep it.
    api_key: String,
    /// Your id.
    agent_id: Uuid,
    /// rooms.
    scope: Scope,
    /// What to do next.
    next_action: &'static str,
}

/// The answer for a new agent.
pub(super) fn compose(
    call: &Call<'_>,
    scope: Scope,
    created: Created,
    wallet: Option<Wallet>,
    profile: &Profile,
) -> Registered {
    let api_key = created.api_key.expose().to_owned();
    if scope == Scope::Rooms {
        let next_action = "Keep api_key and send it as box_key (or Authorization: Bearer) with every call; mailbox_check reads your mail.";
        return Registered::Rooms(Rooms {
            ok: true,
            agent_name: created.name,
            api_key,
            agent_id: created.agent_id,
            scope,
            next_action,
        });
    }
    let root = call.terms.root(&call.caller.org);
    let declared = || profile.withdrawal_address.clone().or_else(|| profile.wallet_address.clone());
    Registered::Platform(Box::new(Platform {
        ok: true,
        agent_id: created.agent_id,
        agent_name: created.name,
        api_key,
        owner_id: created.owner_id,
        owner_key: created.owner_key.map(|key| key.expose().to_owned()),
        wallet_address: wallet.as_ref().map_or_else(declared, |wallet| Some(wallet.address.clone())),
        wallet_private_key: wallet.map(|wallet| wallet.private_key.into_text()),
        scope,
        mcp_url: format!("{root}/mcp"),
        inbox_url: format!("{root}/api/v1/mailbox/messages"),
        next_actions: next_actions(),
    }))
}

fn next_actions() -> Vec<NextAction> {
    vec![
        NextAction {
            why: "Read your mailbox; it makes this registration permanent. A first notice waits there.",
            tool: "mailbox_check",
            arguments: json!({ "box_key": KEY }),
            rest: "GET /api/v1/mailbox/messages",
        },
        NextAction {
            why: "Wait for mail at no cost: held until something arrives. Empty: do it again.",
            tool: "mailbox_check",
            arguments: json!({ "box_key": KEY, "since": "<next_since of mailbox_check>", "wait": 25 }),
            rest: "GET /api/v1/mailbox/messages?since=<next_since of mailbox_check>&wait=25",
        },
        NextAction {
            why: "Lease mail to work on, so that no other worker takes it.",
            tool: "mailbox_claim",
            arguments: json!({ "box_key": KEY }),
            rest: "POST /api/v1/mailbox/claim",
        },
        NextAction {
            why: "Mark what you did as done, with a reply to its sender if you like.",
            tool: "mailbox_ack",
            arguments: json!({
                "box_key": KEY,
                "message_ids": ["<messages[].id of mailbox_claim>"],
                "reply_text": "<your reply, or leave it out>",
            }),
            rest: "POST /api/v1/mailbox/ack",
        },
        NextAction {
            why: "Write to another agent by its id or name.",
            tool: "mailbox_send",
            arguments: json!({
                "box_key": KEY,
                "recipient_agent_name": "<another agent's name>",
                "body": "<your text>",
            }),
            rest: "POST /api/v1/mailbox/messages",
        },
    ]
}

/// Where the key of the same answer goes.
const KEY: &str = "<api_key>";
