//! What an agent declares about itself, judged before it is kept.

use http::Uri;
use serde::Serialize;
use serde_json::Value;

use super::{Capability, Register, Scope, SpendingCapMode};
use crate::call::{Error, Result};
use crate::mailbox::names;
use crate::mailbox::wallet::{self, Wallet};

/// Kept with the agent as declared intent; nothing is ever charged or sent by it.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capability_manifest: Option<Vec<Capability>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    price_per_call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wallet_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) withdrawal_address: Option<String>,
    spending_cap_mode: SpendingCapMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    spending_cap_amount: Option<String>,
    spawn_approval_required: bool,
}

/// Most bytes of everything declared.
const PROFILE_BYTES: usize = 32 * 1024;

impl Register {
    /// The name to register under; `None` = one is made.
    pub(super) fn name(&self) -> Result<Option<&str>> {
        let (field, name) = match (self.scope, &self.agent_name, &self.display_name) {
            (Scope::Platform, _, Some(_)) => {
                return Err(Error::invalid("display_name", "is for scope rooms only; use agent_name"));
            }
            (Scope::Rooms, Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "display_name",
                    "and agent_name are the same thing; give one of them",
                ));
            }
            (_, Some(name), _) => ("agent_name", name),
            (_, None, Some(name)) => ("display_name", name),
            (_, None, None) => return Ok(None),
        };
        names::judge(name).map(Some).map_err(|problem| Error::invalid(field, problem))
    }

    /// What the agent declares, judged.
    pub(super) fn profile(&self) -> Result<Profile> {
        judge_channel(self.channel.as_deref())?;
        judge_url("endpoint", self.endpoint.as_deref())?;
        let price = self.price_per_call.as_deref();
        judge_amount("price_per_call", price, "must be above 0 and at most 100", |amount| amount <= 100.0)?;
        let cap = self.spending_cap_amount.as_deref();
        judge_amount("spending_cap_amount", cap, "must be above 0", |_| true)?;
        if self.spending_cap_mode == SpendingCapMode::Fixed && cap.is_none() {
            return Err(Error::invalid("spending_cap_amount", "is needed when spending_cap_mode is fixed"));
        }
        let profile = Profile {
            endpoint: self.endpoint.clone(),
            description: self.description.clone(),
            capabilities: self.capabilities.clone(),
            capability_manifest: self.capability_manifest.clone(),
            price_per_call: self.price_per_call.clone(),
            wallet_address: judge_address("wallet_address", self.wallet_address.as_deref())?,
            withdrawal_address: judge_address("withdrawal_address", self.withdrawal_address.as_deref())?,
            spending_cap_mode: self.spending_cap_mode,
            spending_cap_amount: self.spending_cap_amount.clone(),
            spawn_approval_required: self.spawn_approval_required,
        };
        let size = serde_json::to_value(&profile).map_or(0, |profile: Value| profile.to_string().len());
        match size > PROFILE_BYTES {
            true => Err(Error::invalid(
                "arguments",
                format!("must declare at most {PROFILE_BYTES} bytes of JSON, all profile fields together"),
            )),
            false => Ok(profile),
        }
    }

    /// Makes a testnet wallet where there is no payout address and none was declined.
    pub(super) fn provision_wallet(&self, profile: &mut Profile) -> Option<Wallet> {
        if profile.withdrawal_address.is_some()
            || !self.auto_provision_testnet_wallet
            || self.scope == Scope::Rooms
        {
            return None;
        }
        let wallet = Wallet::provision();
        profile.withdrawal_address = Some(wallet.address.clone());
        Some(wallet)
    }
}

fn judge_channel(channel: Option<&str>) -> Result<()> {
    let Some(channel) = channel else { return Ok(()) };
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_slug = channel.starts_with(is_word) && channel.chars().all(|c| is_word(c) || c == '-' || c == '_');
    match channel {
        "data_listing" => Err(Error::invalid("channel", "must not be data_listing: it is reserved")),
        _ if is_slug => Ok(()),
        _ => Err(Error::invalid(
            "channel",
            "must be 1 to 64 letters, digits, - or _, beginning with a letter or digit",
        )),
    }
}

fn judge_url(field: &'static str, url: Option<&str>) -> Result<()> {
    let Some(url) = url else { return Ok(()) };
    let parsed = url.parse::<Uri>().ok();
    let is_web =
        parsed.as_ref().and_then(Uri::scheme_str).is_some_and(|scheme| matches!(scheme, "http" | "https"));
    let has_host = parsed.as_ref().and_then(Uri::host).is_some_and(|host| !host.is_empty());
    match is_web && has_host {
        true => Ok(()),
        false => Err(Error::invalid(field, "must be an absolute http or https URL")),
    }
}

/// The schema's pattern has judged the digits already.
fn judge_amount(
    field: &'static str,
    amount: Option<&str>,
    problem: &'static str,
    fits: impl Fn(f64) -> bool,
) -> Result<()> {
    let Some(amount) = amount.map(str::parse::<f64>) else { return Ok(()) };
    match amount {
        Ok(amount) if amount > 0.0 && fits(amount) => Ok(()),
        _ => Err(Error::invalid(field, problem)),
    }
}

fn judge_address(field: &'static str, address: Option<&str>) -> Result<Option<String>> {
    let judged = address.map(wallet::judge_address).transpose();
    judged.map_err(|problem| Error::invalid(field, problem))
}
