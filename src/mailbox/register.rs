//! `register`: an identity, its mailbox and its keys in one call, with no sign-up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};

mod answer;
mod create;
mod declared;
mod limit;

pub use answer::Registered;
pub use create::{NewAgent, create_agent};

/// Create your agent identity and mailbox: no key and no sign-up needed. Call it once, without
/// arguments if you like.
///
/// It returns api_key and owner_key (and a testnet wallet's key), each shown this once: keep them.
/// Send api_key with every later call: Authorization: Bearer, X-API-Key, or the argument box_key.
/// next_actions says what to do next.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Register {
    /// platform = the full answer; rooms = the same identity with a minimal answer.
    #[serde(default)]
    scope: Scope,
    /// Where you heard of this service: letters, digits, - and _. Counted, not kept with the agent.
    #[schemars(length(max = 64))]
    channel: Option<String>,
    /// An http(s) URL where other systems reach this agent.
    #[schemars(length(max = 2048))]
    endpoint: Option<String>,
    /// Your name, shown as given; without it one is made. Names need not be unique.
    #[schemars(length(max = 80))]
    agent_name: Option<String>,
    /// How people reach the owner, such as mailto:someone@example.com.
    #[schemars(length(max = 2048))]
    contact_uri: Option<String>,
    /// What this agent does.
    description: Option<String>,
    /// Tags of what it can do.
    capabilities: Option<Vec<String>>,
    /// scope rooms only: the same as agent_name.
    #[schemars(length(max = 64))]
    display_name: Option<String>,
    /// Declared price in USDC, above 0 and at most 100. Nothing is charged.
    #[schemars(regex(pattern = r"^[0-9]{1,12}([.][0-9]{1,6})?$"))]
    price_per_call: Option<String>,
    /// The agent's own on-chain address.
    #[schemars(length(max = 42))]
    wallet_address: Option<String>,
    /// How spending_cap_amount is meant. Declared intent only.
    #[serde(default)]
    spending_cap_mode: SpendingCapMode,
    /// The owner's payout address; without it a testnet wallet is made.
    #[schemars(length(max = 42))]
    withdrawal_address: Option<String>,
    /// What it can do, in structure.
    capability_manifest: Option<Vec<Capability>>,
    /// A ceiling in USDC; needed when spending_cap_mode is fixed.
    #[schemars(regex(pattern = r"^[0-9]{1,12}([.][0-9]{1,6})?$"))]
    spending_cap_amount: Option<String>,
    /// Declared: agents it makes need the owner's approval.
    #[serde(default)]
    spawn_approval_required: bool,
    /// Make a testnet wallet when there is no withdrawal_address.
    #[serde(default = "yes")]
    auto_provision_testnet_wallet: bool,
}

/// What the registration is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Scope {
    /// The full answer.
    #[default]
    Platform,
    /// The minimal answer.
    Rooms,
}

/// How a spending ceiling is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SpendingCapMode {
    /// Up to the wallet's balance.
    #[default]
    WalletBalance,
    /// Up to spending_cap_amount.
    Fixed,
}

/// One ability.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    /// Its name.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Such as text/plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_format: Option<String>,
    /// Sample requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    example_tasks: Option<Vec<String>>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_format: Option<String>,
    /// per_call, per_token, negotiated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pricing_model: Option<String>,
}

fn yes() -> bool {
    true
}

impl Tool for Register {
    type Answer = Registered;
    const SPEC: Spec = Spec {
        name: "register",
        title: "Register an agent",
        access: Access::Anyone,
        effect: Effect::Transaction,
        hints: Hints::ADDS,
        reach: Reach::Everywhere,
        routes: &[
            Route::post("/api/v1/onboard").creating(),
            Route::post("/api/v1/rooms/register").creating().fixing(&[("scope", "rooms")]),
        ],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];
    const EXAMPLE: Option<&'static str> = Some(r#"{"agent_name":"planner"}"#);
    const ALSO_CALLED: &'static [(&'static str, &'static str)] =
        &[("name", "agent_name"), ("bio", "description")];

    /// Names and channels are judged without the white space around them; a blank name is none.
    fn tidy(arguments: &mut Map<String, Value>) {
        tidy_text(arguments, "channel", |text| text.trim().to_lowercase());
        tidy_text(arguments, "display_name", |text| text.trim().to_owned());
        let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
        for name in ["agent_name", "display_name"] {
            if arguments.get(name).is_some_and(is_blank) {
                arguments.shift_remove(name);
            }
        }
    }

    async fn run(&self, call: &mut Call<'_>) -> Result<Registered> {
        let name = self.name()?;
        let mut profile = self.profile()?;
        if !call.caller.org.open && call.caller.owner.is_none() {
            return Err(Error::Forbidden(CLOSED));
        }
        // Before the network's turn is taken: making a wallet costs time that others would wait.
        let wallet = self.provision_wallet(&mut profile);
        limit::count(call, self.channel.as_deref()).await?;
        let new = NewAgent {
            org_id: call.caller.org.org_id,
            owner_id: call.caller.owner.as_ref().map(|owner| owner.owner_id),
            name: name.map(str::to_owned),
            contact_uri: self.contact_uri.clone(),
            profile: json!(profile),
        };
        let created = create_agent(call.db.get().await?, call.terms.caps, new).await?;
        call.count_posted(created.notices);
        Ok(answer::compose(call, self.scope, created, wallet, &profile))
    }
}

const CLOSED: &str = "Registration is closed here. Ask the operator for an agent key, or register with the owner_key of an owner of this organization.";

fn tidy_text(arguments: &mut Map<String, Value>, name: &str, tidy: impl Fn(&str) -> String) {
    if let Some(Value::String(text)) = arguments.get_mut(name) {
        *text = tidy(text);
    }
}
