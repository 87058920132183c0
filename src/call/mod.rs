//! The one path every call takes, whichever door it came in by.
//!
//! A door turns bytes into arguments, the gate finds the [`Caller`], and
//! [`dispatch`] checks, runs, commits and wakes.

pub(crate) mod arguments;
mod attempt;
pub mod caller;
pub(crate) mod carried;
pub mod credential;
pub(crate) mod cursor;
pub mod db;
pub mod dialect;
pub mod dispatch;
pub(crate) mod field_path;
pub(crate) mod fingerprint;
pub mod follow;
pub(crate) mod holds;
pub(crate) mod json;
pub(crate) mod lock;
mod outcome;
pub mod progress;
pub mod registry;
pub(crate) mod schema;
pub mod seal;
pub(crate) mod terms;
pub(crate) mod ticket;
pub mod tool;
pub mod turns;

pub use crate::error::{Error, Result};
pub use caller::{AgentSession, Caller, Organization, OwnerSession};
pub use dispatch::{Call, Dispatch};
pub use registry::{Entry, Registry, Toolset};
pub use terms::{Caps, HoldLimits, Terms};
pub use tool::{Access, Effect, Follow, Hints, Method, Reach, Route, Spec, Tool};
