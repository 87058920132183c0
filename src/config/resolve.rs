//! From what was given to what it means, with the defaults: a function for each kind of setting.

use std::net::{Ipv4Addr, SocketAddr};

use super::given::{Given, Refused};
use super::{Config, value};

const ADDRESS: &str = "an address and port such as 127.0.0.1:8080";
const ADDRESS_OR_OFF: &str = "an address and port such as 127.0.0.1:9464, or off";
const URL: &str = "an http or https URL without credentials, query or fragment";
const HOSTS: &str = "host names separated by commas, each with or without a port, or *";
const ORIGINS: &str = "origins such as https://app.example.com separated by commas, or *";
const NETWORKS: &str = "networks such as 10.0.0.0/8 separated by commas";
const UNSAFE_EGRESS: &str = "loopback or unset, and unset unless WAYPOST_LISTEN is a loopback address";
const COUNT: &str = "a whole number from 0 to 1000000; 0 means no limit";
const TIME: &str = "a number of seconds from 0 to 3600";

impl Config {
    pub(super) fn resolve(given: &Given) -> Result<Self, Refused> {
        let mut config = Self::default();
        config.take_addresses(given)?;
        config.take_trust(given)?;
        config.take_database(given)?;
        config.take_limits(given)?;
        config.take_running(given)?;
        Ok(config)
    }

    /// Where the pod is reached. The program's listeners, unlike those of a pod within another, have fixed ports.
    fn take_addresses(&mut self, given: &Given) -> Result<(), Refused> {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listen = given.read("WAYPOST_LISTEN", ADDRESS, |text| text.parse().ok())?;
        self.listen = listen.unwrap_or(loopback(8080));
        let ops_listen = given.read("WAYPOST_OPS_LISTEN", ADDRESS_OR_OFF, value::address_or_off)?;
        self.ops_listen = ops_listen.unwrap_or(Some(loopback(9464)));
        self.public_url = given.read("WAYPOST_PUBLIC_URL", URL, value::url)?;
        Ok(())
    }

    /// Whom the pod believes, and what proves what it says itself.
    fn take_trust(&mut self, given: &Given) -> Result<(), Refused> {
        self.allowed_hosts = given.read("WAYPOST_ALLOWED_HOSTS", HOSTS, value::hosts)?;
        if let Some(origins) = given.read("WAYPOST_ALLOWED_ORIGINS", ORIGINS, value::origins)? {
            self.allowed_origins = origins;
        }
        if let Some(proxies) = given.read("WAYPOST_TRUSTED_PROXIES", NETWORKS, value::networks)? {
            self.trusted_proxies = proxies;
        }
        self.secret_key = given.read("WAYPOST_SECRET_KEY", "32 bytes in base64", value::key)?;
        self.egress_ca = given.path("WAYPOST_EGRESS_CA");
        let is_loopback = self.listen.ip().is_loopback();
        let loopback = |text: &str| (text == "loopback" && is_loopback).then_some(true);
        let unsafe_egress = given.read("WAYPOST_UNSAFE_EGRESS", UNSAFE_EGRESS, loopback)?;
        self.unsafe_egress = unsafe_egress.unwrap_or(false);
        Ok(())
    }

    /// Where everything is kept.
    fn take_database(&mut self, given: &Given) -> Result<(), Refused> {
        let wanted = "a URL that begins with postgres://";
        self.database_url = given.read("DATABASE_URL", wanted, value::postgres_url)?;
        self.data_dir = given.data_dir()?;
        self.pg_bin = given.path("WAYPOST_PG_BIN");
        self.search_path = given.search_path();
        let connections = |text: &str| text.parse().ok().filter(|number| (1..=1000).contains(number));
        if let Some(pool) = given.read("WAYPOST_POOL", "a whole number from 1 to 1000", connections)? {
            self.pool = pool;
        }
        self.unsafe_durability = given.unsafe_durability();
        Ok(())
    }

    /// How much of everything there may be.
    fn take_limits(&mut self, given: &Given) -> Result<(), Refused> {
        let limits = [
            ("WAYPOST_REGISTER_LIMIT", &mut self.register_limit),
            ("WAYPOST_RATE_LIMIT", &mut self.rate_limit),
            ("WAYPOST_CAP_MAILBOX", &mut self.caps.mailbox),
            ("WAYPOST_CAP_SENDER", &mut self.caps.sender),
            ("WAYPOST_HOLDS_PER_AGENT", &mut self.holds.agent),
            ("WAYPOST_HOLDS_PER_ORG", &mut self.holds.org),
            ("WAYPOST_HOLDS_PER_POD", &mut self.holds.pod),
        ];
        let count = |text: &str| text.parse().ok().filter(|number| *number <= 1_000_000);
        for (variable, limit) in limits {
            if let Some(number) = given.read(variable, COUNT, count)? {
                *limit = number;
            }
        }
        Ok(())
    }

    /// What it offers, how it ends and what it says.
    fn take_running(&mut self, given: &Given) -> Result<(), Refused> {
        let wanted = "toolset names separated by commas, each once";
        if let Some(toolsets) = given.read("WAYPOST_DEFAULT_TOOLSETS", wanted, value::list)? {
            self.default_toolsets = toolsets;
        }
        let times =
            [("WAYPOST_DRAIN_DELAY", &mut self.drain_delay), ("WAYPOST_DRAIN_LIMIT", &mut self.drain_limit)];
        for (variable, time) in times {
            if let Some(seconds) = given.read(variable, TIME, value::seconds)? {
                *time = seconds;
            }
        }
        if let Some(log) = given.log()? {
            self.log = log;
        }
        self.without_effect = given.without_effect();
        Ok(())
    }
}
