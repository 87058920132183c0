//! What every door does with a call: who is it, which tool, run it.

use std::sync::Arc;

use http::HeaderMap;
use ipnet::IpNet;
use serde_json::{Map, Value};

use crate::call::dispatch::{Progress, Request};
use crate::call::registry::Ran;
use crate::call::{Dispatch, Entry, Error, Registry, Result};
use crate::gate::{Gate, Presented, RateLimits, Tally, Visitor};

/// What the doors need of the pod. Cheap to clone.
#[derive(Clone)]
pub struct Reception {
    /// Judges credentials.
    pub gate: Gate,
    /// How often each may come.
    pub limits: RateLimits,
    /// Runs calls.
    pub dispatch: Dispatch,
    /// All tools.
    pub registry: Arc<Registry>,
    /// Toolsets at `/mcp` when the caller names none.
    pub default_toolsets: Arc<[String]>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Arc<[IpNet]>,
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
        self.gate.greet(Presented::from_headers(headers), entrance.org, entrance.tally.clone()).await
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
        progress: Option<Progress>,
    ) -> Result<Ran> {
        let name = entry.spec.access.argument();
        let key = match key_among(entry, &arguments) {
            None => None,
            Some(Value::String(key)) => Some(key.as_str()),
            Some(_) => return Err(Error::invalid(name, "must be text")),
        };
        let caller = self.gate.admit(visitor, entrance.org, entry.spec.access, key).await?;
        self.dispatch.call(Request { entry: entry.clone(), caller, arguments, progress }).await
    }
}

/// The credential among a tool's arguments, if one came.
pub fn key_among<'a>(entry: &Entry, arguments: &'a Map<String, Value>) -> Option<&'a Value> {
    arguments.get(entry.spec.access.argument()).filter(|key| !key.is_null())
}
