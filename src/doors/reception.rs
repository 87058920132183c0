//! What every door does with a call: who is it, which tool, run it.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderMap;
use ipnet::IpNet;
use serde_json::{Map, Value};

use crate::call::dispatch::Request;
use crate::call::follow::Follower;
use crate::call::progress::Progress;
use crate::call::registry::Ran;
use crate::call::{Caller, Dispatch, Entry, Error, Registry, Result};
use crate::gate::{Gate, Presented, Visitor, network};

/// What the doors need of the pod. Cheap to clone.
#[derive(Clone)]
pub struct Reception {
    /// Judges credentials.
    pub gate: Gate,
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
#[derive(Debug, Clone, Copy)]
pub struct Entrance<'a> {
    /// The `{org}` of `/o/{org}`, where the path names one.
    pub org: Option<&'a str>,
    /// The other end of the connection.
    pub peer: SocketAddr,
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
        // Lossy, not left out: a value that is skipped would let the walk reach what the client wrote.
        let values = headers.get_all("x-forwarded-for").iter();
        let forwarded: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let forwarded = forwarded.iter().map(|value| &**value);
        let ip = network::client_ip(entrance.peer.ip(), forwarded, &self.trusted_proxies);
        let presented = Presented::from_headers(headers).with_ticket(ticket);
        self.gate.greet(presented, entrance.org, network::network_of(ip)).await
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
        let key = match arguments.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) => Some(key.as_str()),
            Some(_) => return Err(Error::invalid(name, "must be text")),
        };
        self.gate.admit(visitor, entrance.org.is_some(), entry.spec.access, key).await
    }
}
