//! What every door does with a call: who is it, which tool, run it.

use std::sync::Arc;

use http::HeaderMap;
use ipnet::IpNet;
use serde_json::{Map, Value};

use super::front::Room;
use crate::call::dispatch::Request;
use crate::call::follow::Follower;
use crate::call::progress::Progress;
use crate::call::registry::Ran;
use crate::call::{Caller, Dispatch, Entry, Error, Registry, Result};
use crate::gate::{Gate, Presented, RateLimits, Tally, Visitor};

/// What the doors need of the pod.
pub struct Reception {
    /// Judges credentials.
    pub gate: Gate,
    /// How often each may come.
    pub limits: RateLimits,
    /// Memory of the bodies under way.
    pub room: Room,
    /// Runs calls.
    pub dispatch: Arc<Dispatch>,
    /// All tools.
    pub registry: Registry,
    /// Toolsets at `/mcp` when the caller names none.
    pub default_toolsets: Vec<String>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
}

/// Where a request came in.
#[derive(Clone, Copy)]
pub struct Entrance<'a> {
    /// The `{org}` of `/o/{org}`, where the path names one.
    pub org: Option<&'a str>,
    /// What the request is counted on.
    pub tally: &'a Tally,
}

impl Reception {
    /// Judges what the headers tell, before the body is read.
    ///
    /// # Errors
    /// Those of [`Gate::greet`]: refusals of the HTTP layer at every door.
    pub async fn greet(&self, headers: &HeaderMap, entrance: Entrance<'_>) -> Result<Visitor> {
        self.greet_with(None, headers, entrance).await
    }

    /// The same where a ticket may stand for a key.
    ///
    /// # Errors
    /// Those of [`Reception::greet`]; `unauthorized` for a ticket that does not stand or has a key beside it.
    pub async fn greet_with(
        &self,
        ticket: Option<String>,
        headers: &HeaderMap,
        entrance: Entrance<'_>,
    ) -> Result<Visitor> {
        let presented = Presented::from_headers(headers).with_ticket(ticket);
        self.gate.greet(presented, entrance.org, entrance.tally.clone()).await
    }

    /// Judges a key among the arguments and runs the tool.
    ///
    /// # Errors
    /// Whatever the tool refuses, and those of [`Gate::admit`]: all of them the tool's
    /// answer, in its toolset's dialect.
    pub async fn call(
        &self,
        visitor: Visitor,
        entrance: Entrance<'_>,
        entry: &Arc<Entry>,
        arguments: Map<String, Value>,
        progress: Progress,
    ) -> Result<Ran> {
        let caller = self.admit(visitor, entrance, entry, &arguments).await?;
        self.dispatch.call(Request { entry: entry.clone(), caller, arguments, progress }).await
    }

    /// The same, for a door that shows what the tool follows as it comes: until `wait` is over, or, where the
    /// client gave none, until the pod drains.
    ///
    /// # Errors
    /// Those of [`Reception::call`].
    pub async fn follow(
        &self,
        visitor: Visitor,
        entrance: Entrance<'_>,
        entry: &Arc<Entry>,
        arguments: Map<String, Value>,
    ) -> Result<Follower> {
        let caller = self.admit(visitor, entrance, entry, &arguments).await?;
        let is_bounded = arguments.contains_key("wait");
        let request = Request { entry: entry.clone(), caller, arguments, progress: Progress::Unseen };
        self.dispatch.follow(request, is_bounded).await
    }

    async fn admit(
        &self,
        visitor: Visitor,
        entrance: Entrance<'_>,
        entry: &Entry,
        arguments: &Map<String, Value>,
    ) -> Result<Caller> {
        let name = entry.spec.access.argument();
        let key = match key_among(entry, arguments) {
            None => None,
            Some(Value::String(key)) => Some(key.as_str()),
            Some(_) => return Err(Error::invalid(name, "must be text")),
        };
        self.gate.admit(visitor, entrance.org, entry.spec.access, key).await
    }
}

/// The credential among a tool's arguments, if one came.
pub fn key_among<'a>(entry: &Entry, arguments: &'a Map<String, Value>) -> Option<&'a Value> {
    arguments.get(entry.spec.access.argument()).filter(|key| !key.is_null())
}
