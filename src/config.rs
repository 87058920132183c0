//! The command line and the settings: the only reader of the environment.
//!
//! Every setting is a flag and an environment variable ([`SETTINGS`]); the flag wins, an empty variable
//! counts as unset. What cannot work is one plain sentence on standard error and exit code 2, and no value
//! is ever echoed, since any of them may hold a secret put in the wrong place.

mod given;
mod resolve;
mod role;
mod settings;
#[cfg(test)]
mod tests;
mod value;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::egress::Resolver;
use given::Given;
pub use given::Refused;
pub use role::{AgentChore, Chore, KeyChore, OrgChore, Registration, Role};
pub use settings::{SETTINGS, Setting};
pub use value::{Allowed, Secret};

/// What the process was asked to do, and with which settings.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The role of this process.
    pub role: Role,
    /// Its settings.
    pub config: Config,
}

/// The settings of a pod. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Config {
    /// The public listener. Port 0 takes any free one.
    pub listen: SocketAddr,
    /// The listener of `/metrics`; `None` = none.
    pub ops_listen: Option<SocketAddr>,
    /// The URL shown to clients, without a trailing slash; `None` = made from the bound address.
    pub public_url: Option<String>,
    /// Hosts a request may name, beside the public URL's; `None` = loopback.
    pub allowed_hosts: Option<Allowed>,
    /// Browser origins that may call, beside the public URL's.
    pub allowed_origins: Allowed,
    /// The Postgres to use; `None` = a private cluster in [`Config::data_dir`].
    pub database_url: Option<Secret<String>>,
    /// Private cluster and key file.
    pub data_dir: PathBuf,
    /// Folder of the Postgres server programs; `None` = search.
    pub pg_bin: Option<PathBuf>,
    /// The folders of `PATH`, where server programs are searched.
    pub search_path: Vec<PathBuf>,
    /// Connections of the pod's pool, 1 to 1000.
    pub pool: u32,
    /// Toolsets at `/mcp` when the caller names none. Names are judged against the registry at start.
    pub default_toolsets: Vec<String>,
    /// Registrations per hour and client network; 0 = no limit.
    pub register_limit: u32,
    /// Requests per second and credential (and network, for strangers) over all pods; 0 = no limit.
    pub rate_limit: u32,
    /// How much mail may wait.
    pub caps: Caps,
    /// How many reads and streams may be held.
    pub holds: Holds,
    /// The key that encrypts and signs, which every pod needs; `None` = the key file of the data dir.
    pub secret_key: Option<Secret<[u8; 32]>>,
    /// PEM roots that are believed beside the system's, for what leaves.
    pub egress_ca: Option<PathBuf>,
    /// Whether what leaves may go to this machine, at any port: for tests.
    pub unsafe_egress: bool,
    /// How the names of hosts outside are looked up. No setting: the system's way, but for pods inside another process.
    pub resolver: Resolver,
    /// Networks whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// From `/readyz` failing to closing the door.
    pub drain_delay: Duration,
    /// Until what is left of a drain is cut.
    pub drain_limit: Duration,
    /// Whether a database that may lose what it has acknowledged is accepted.
    pub unsafe_durability: bool,
    /// The log filter, in the syntax of `RUST_LOG`.
    pub log: String,
    /// Settings that were given but have no effect in this version; the start warns of each.
    pub without_effect: Vec<&'static str>,
}

/// Unacked peer mail that may wait; 0 = no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Messages per mailbox.
    pub mailbox: u32,
    /// Messages of one sender in a mailbox.
    pub sender: u32,
}

/// Reads and streams held at once; 0 = no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds {
    /// Per agent.
    pub agent: u32,
    /// Per organization.
    pub org: u32,
    /// In this pod.
    pub pod: u32,
}

/// For pods inside another process: a free loopback port, no ops listener, a data dir of this process.
/// Everything else is as it is when nothing is set.
impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ops_listen: None,
            public_url: None,
            allowed_hosts: None,
            allowed_origins: Allowed::Any,
            database_url: None,
            data_dir: std::env::temp_dir().join(format!("waypost-{}", std::process::id())),
            pg_bin: None,
            search_path: Vec::new(),
            pool: 10,
            default_toolsets: vec!["mailbox".to_owned()],
            register_limit: 20,
            rate_limit: 50,
            caps: Caps { mailbox: 50, sender: 10 },
            holds: Holds { agent: 4, org: 200, pod: 10_000 },
            secret_key: None,
            egress_ca: None,
            unsafe_egress: false,
            resolver: Resolver::system(),
            trusted_proxies: Vec::new(),
            drain_delay: Duration::ZERO,
            drain_limit: Duration::from_secs(20),
            unsafe_durability: false,
            log: "info".to_owned(),
            without_effect: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the command line and the environment of this process.
    ///
    /// # Errors
    /// As [`Config::from`].
    pub fn of_this_process() -> Result<Invocation, Refused> {
        Self::from(std::env::args_os(), std::env::vars_os())
    }

    /// Reads `args` (the program's name first) and `env`.
    ///
    /// # Errors
    /// An unknown argument or `WAYPOST_…` variable, a value that cannot work, or a call for help.
    pub fn from(
        args: impl IntoIterator<Item = OsString>,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Invocation, Refused> {
        let (role, given) = Given::collect(args, env)?;
        let config = Self::resolve(&given)?;
        Ok(Invocation { role, config })
    }

    /// The URL shown to clients when the public listener is bound to `bound`, without a trailing slash.
    ///
    /// An address that stands for every interface cannot be called, so loopback is shown instead.
    #[must_use]
    pub fn public_url(&self, bound: SocketAddr) -> String {
        let local = match bound {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        let host = if bound.ip().is_unspecified() { local } else { bound.ip() };
        self.public_url.clone().unwrap_or_else(|| format!("http://{}", SocketAddr::new(host, bound.port())))
    }

    /// Logs one line for each setting that was given but has no effect in this version.
    pub fn warn_of_idle_settings(&self) {
        for setting in &self.without_effect {
            tracing::warn!(setting, "this setting has no effect in this version");
        }
    }
}
