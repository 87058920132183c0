//! The contract of a tool: it is its input struct.

use std::future::Future;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Call, Result};

/// A tool is its input: once the arguments are read, you hold the command.
///
/// The doc comment of the input type and of its fields is what agents read.
pub trait Tool: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// What it answers.
    type Answer: Serialize + JsonSchema + Send;

    /// How the doors show it.
    const SPEC: Spec;

    /// Words that callers guess for an argument, so that the refusal can suggest the real one.
    const ALSO_CALLED: &'static [(&'static str, &'static str)] = &[];

    /// Codes of the refusals that are its own, beside those that any tool may answer
    /// ([`kinds::ANYWHERE`](crate::error::kinds::ANYWHERE)): for documents.
    const REFUSES: &'static [&'static str] = &[];

    /// Arguments worth showing in an example call, as JSON: for documents. Without them the required ones are shown.
    const EXAMPLE: Option<&'static str> = None;

    /// Puts arguments in order before they are judged by the published schema,
    /// where that schema cannot say it (trimming, say). Most tools need none.
    fn tidy(_arguments: &mut Map<String, Value>) {}

    /// One transaction's work. Never begins, commits or waits. A held call runs more than once.
    fn run(&self, call: &mut Call<'_>) -> impl Future<Output = Result<Self::Answer>> + Send;

    /// How long the caller lets this call be held while its answer [awaits](Tool::awaits) more.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// `Some(seq)` when the answer is empty and worth asking for again once the
    /// caller's own mailbox has moved beyond `seq`.
    fn awaits(_answer: &Self::Answer) -> Option<i64> {
        None
    }

    /// `Some`: for a client that sees progress, the call follows the caller's own mailbox. [`Tool::run`] is
    /// then only its beginning, and its answer is what a client gets that sees none.
    fn follow(&self) -> Option<Follow> {
        None
    }
}

/// How a call follows its caller's mailbox.
#[derive(Debug, Clone, Copy)]
pub struct Follow {
    /// Everything after this seq comes; `None`: what nobody acked yet, and then what is new.
    pub since: Option<i64>,
    /// How long.
    pub wait: Duration,
    /// How often a sign of life comes.
    pub heartbeat: Duration,
}

/// How the doors show a tool.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// `verb_noun`, unique, `^[a-z0-9_]{1,64}$`.
    pub name: &'static str,
    /// A few words for people.
    pub title: &'static str,
    /// Who may call it.
    pub access: Access,
    /// Whether it takes effect as a whole.
    pub effect: Effect,
    /// MCP's hints.
    pub hints: Hints,
    /// Listed over MCP and at `/api/v1/tools/{name}` too, or only at its routes.
    pub reach: Reach,
    /// Its own REST routes, the documented one first.
    pub routes: &'static [Route],
}

/// Who may call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody; an `owner_key` may come along.
    Anyone,
    /// An agent: `Authorization: Bearer`, `X-API-Key` or the argument `box_key`.
    Agent,
    /// An owner: `X-Owner-Key` or the argument `owner_key`.
    Owner,
}

impl Access {
    /// The argument that may carry the credential.
    pub fn argument(self) -> &'static str {
        match self {
            Access::Agent => BOX_KEY,
            Access::Anyone | Access::Owner => OWNER_KEY,
        }
    }
}

/// The argument that carries an agent key where headers cannot be set.
pub const BOX_KEY: &str = "box_key";
/// The argument that carries an owner key.
pub const OWNER_KEY: &str = "owner_key";

/// How a tool's work takes effect. Whether it changes what others see is told by its [`Hints`]:
/// a read that only stamps a poll runs as statements, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Statement by statement, each for good at once: for reads, and what stands by itself.
    Statements,
    /// In one transaction: all of it or nothing.
    Transaction,
    /// By what it posts ([`Call::post`]), all of it or nothing; beside that it only reads, and stamps a poll.
    Posting,
    /// Statement by statement, with calls to the outside ([`Call::egress`]) between them, during which it holds no
    /// connection. A call that collides or loses its connection does all of it again.
    Outward,
}

/// MCP's tool annotations, all of them explicit.
#[derive(Debug, Clone, Copy)]
pub struct Hints {
    /// Changes nothing that others see.
    pub read_only: bool,
    /// Ends or removes something.
    pub destructive: bool,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Reaches beyond this service's own data.
    pub open_world: bool,
}

impl Hints {
    /// Reads: safe to call at any time.
    pub const READS: Hints =
        Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
    /// Adds something at each call.
    pub const ADDS: Hints =
        Hints { read_only: false, destructive: false, idempotent: false, open_world: false };
    /// Brings about a state; again changes nothing.
    pub const SETS: Hints =
        Hints { read_only: false, destructive: false, idempotent: true, open_world: false };
    /// Ends something that stood before.
    pub const ENDS: Hints =
        Hints { read_only: false, destructive: true, idempotent: false, open_world: false };
}

/// Through which doors a tool is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// MCP, `/api/v1/tools/{name}` and its routes.
    Everywhere,
    /// Only its routes.
    Routes,
}

/// One REST route of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path below the organization's root, such as `/api/v1/agents/{agent_id}/keys`;
    /// names in braces are arguments.
    pub path: &'static str,
    /// 200, 201 for what makes something, or 204 for what answers nothing.
    pub success: u16,
    /// Arguments that this route fixes, such as `scope` on the rooms rail.
    pub fixed: &'static [(&'static str, &'static str)],
    /// Whether it answers by server-sent events, of what the tool [follows](Tool::follow).
    pub is_stream: bool,
}

/// The methods routes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Arguments in the query.
    Get,
    /// Arguments in a JSON body.
    Post,
    /// Arguments in a JSON body.
    Put,
    /// Arguments in the path only.
    Delete,
}

impl Route {
    /// `GET path`.
    pub const fn get(path: &'static str) -> Route {
        Route { method: Method::Get, path, success: 200, fixed: &[], is_stream: false }
    }
    /// `POST path`.
    pub const fn post(path: &'static str) -> Route {
        Route { method: Method::Post, path, success: 200, fixed: &[], is_stream: false }
    }
    /// `PUT path`.
    pub const fn put(path: &'static str) -> Route {
        Route { method: Method::Put, path, success: 200, fixed: &[], is_stream: false }
    }
    /// `DELETE path`.
    pub const fn delete(path: &'static str) -> Route {
        Route { method: Method::Delete, path, success: 200, fixed: &[], is_stream: false }
    }
    /// The same, answering 204 and nothing.
    pub const fn emptily(mut self) -> Route {
        self.success = 204;
        self
    }
    /// The same, answering 201 (200 when the answer is a replay).
    pub const fn creating(mut self) -> Route {
        self.success = 201;
        self
    }
    /// The same, answering by server-sent events.
    pub const fn streaming(mut self) -> Route {
        self.is_stream = true;
        self
    }
    /// The same, with arguments that the route fixes.
    pub const fn fixing(mut self, fixed: &'static [(&'static str, &'static str)]) -> Route {
        self.fixed = fixed;
        self
    }
}
