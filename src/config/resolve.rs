//! From what was given to what it means, with the defaults.

use std::net::{Ipv4Addr, SocketAddr};

use super::given::{Given, Refused};
use super::{Caps, Config, Holds, value};

impl Config {
    pub(super) fn resolve(given: &Given) -> Result<Self, Refused> {
        let base = Self::default();
        let address = "an address and port such as 127.0.0.1:8080";
        let count = "a whole number from 0 to 1000000; 0 means no limit";
        let time = "a number of seconds from 0 to 3600";
        let number = |variable, default| -> Result<u32, Refused> {
            let parse = |text: &str| text.parse().ok().filter(|number| *number <= 1_000_000);
            Ok(given.read(variable, count, parse)?.unwrap_or(default))
        };
        Ok(Self {
            listen: given
                .read("WAYPOST_LISTEN", address, |text| text.parse().ok())?
                .unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))),
            ops_listen: given
                .read(
                    "WAYPOST_OPS_LISTEN",
                    "an address and port such as 127.0.0.1:9464, or off",
                    value::address_or_off,
                )?
                .unwrap_or(Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)))),
            public_url: given.read(
                "WAYPOST_PUBLIC_URL",
                "an http or https URL without credentials, query or fragment",
                value::url,
            )?,
            allowed_hosts: given.read(
                "WAYPOST_ALLOWED_HOSTS",
                "host names separated by commas, each with or without a port, or *",
                value::hosts,
            )?,
            allowed_origins: given
                .read(
                    "WAYPOST_ALLOWED_ORIGINS",
                    "origins such as https://app.example.com separated by commas, or *",
                    value::origins,
                )?
                .unwrap_or(base.allowed_origins),
            database_url: given.read(
                "DATABASE_URL",
                "a URL that begins with postgres://",
                value::postgres_url,
            )?,
            data_dir: given.data_dir()?,
            pg_bin: given.path("WAYPOST_PG_BIN"),
            search_path: given.search_path(),
            pool: given
                .read("WAYPOST_POOL", "a whole number from 1 to 1000", |text| {
                    text.parse().ok().filter(|number| (1..=1000).contains(number))
                })?
                .unwrap_or(base.pool),
            default_toolsets: given
                .read(
                    "WAYPOST_DEFAULT_TOOLSETS",
                    "toolset names separated by commas, each once",
                    value::list,
                )?
                .unwrap_or(base.default_toolsets),
            register_limit: number("WAYPOST_REGISTER_LIMIT", base.register_limit)?,
            caps: Caps {
                mailbox: number("WAYPOST_CAP_MAILBOX", base.caps.mailbox)?,
                sender: number("WAYPOST_CAP_SENDER", base.caps.sender)?,
            },
            holds: Holds {
                agent: number("WAYPOST_HOLDS_PER_AGENT", base.holds.agent)?,
                org: number("WAYPOST_HOLDS_PER_ORG", base.holds.org)?,
                pod: number("WAYPOST_HOLDS_PER_POD", base.holds.pod)?,
            },
            secret_key: given.read("WAYPOST_SECRET_KEY", "32 bytes in base64", value::key)?,
            trusted_proxies: given
                .read(
                    "WAYPOST_TRUSTED_PROXIES",
                    "networks such as 10.0.0.0/8 separated by commas",
                    value::networks,
                )?
                .unwrap_or_default(),
            drain_delay: given.read("WAYPOST_DRAIN_DELAY", time, value::seconds)?.unwrap_or(base.drain_delay),
            drain_limit: given.read("WAYPOST_DRAIN_LIMIT", time, value::seconds)?.unwrap_or(base.drain_limit),
            unsafe_durability: given.unsafe_durability(),
            log: given.log()?.unwrap_or(base.log),
            without_effect: given.without_effect(),
        })
    }
}
