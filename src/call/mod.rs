//! The one path every call takes, whichever door it came in by.
//!
//! A door turns bytes into arguments, the gate finds the [`Caller`], and
//! [`dispatch`] checks, runs, commits and wakes.

pub mod arguments;
pub mod caller;
pub mod credential;
pub mod cursor;
pub mod dialect;
pub mod dispatch;
pub mod error;
pub mod field_path;
pub mod fingerprint;
pub mod holds;
pub mod instant;
pub mod json;
pub mod lock;
pub mod page;
pub mod registry;
pub mod schema;
pub mod terms;
pub mod tool;
pub mod transaction;

pub use caller::{AgentSession, Caller, Organization, OwnerSession};
pub use dispatch::{Call, Dispatch};
pub use error::{Error, Result};
pub use registry::{Entry, Registry, Toolset};
pub use terms::{Caps, HoldLimits, Terms};
pub use tool::{Access, Effect, Hints, Method, Reach, Route, Spec, Tool};
