//! Which hosts a request may name and which browser origins may call: what stands against DNS rebinding.

use std::net::IpAddr;

use http::uri::Authority;

use crate::config::{Allowed, Config};

/// The allowed hosts and origins of a pod.
#[derive(Debug, Clone)]
pub struct Sites {
    /// `None` = any.
    hosts: Option<Vec<String>>,
    loopback: bool,
    /// `None` = any.
    origins: Option<Vec<String>>,
}

impl Sites {
    /// The settings' lists, and the host and origin of `public_url` beside them.
    #[must_use]
    pub fn new(config: &Config, public_url: &str) -> Self {
        let public_url = public_url.to_ascii_lowercase();
        let (scheme, rest) = public_url.split_once("://").unwrap_or(("http", &public_url));
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority.parse().map(|authority: Authority| authority.host().to_owned());
        let with = |list: &[String], own: String| Some(list.iter().cloned().chain([own]).collect());
        let own_host = host.unwrap_or_default();
        let hosts = match &config.allowed_hosts {
            Some(Allowed::Any) => None,
            Some(Allowed::List(names)) => with(names, own_host),
            None => with(&[], own_host),
        };
        let origins = match &config.allowed_origins {
            Allowed::Any => None,
            Allowed::List(names) => with(names, format!("{scheme}://{authority}")),
        };
        Self { hosts, loopback: config.allowed_hosts.is_none(), origins }
    }

    /// The allowed origins; `None` = any.
    #[must_use]
    pub fn origins(&self) -> Option<&[String]> {
        self.origins.as_deref()
    }

    /// Whether a request may name this host. An allowed name without a port stands for every port.
    #[must_use]
    pub fn allow_host(&self, value: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let Ok(authority) = value.parse::<Authority>() else { return false };
        let port = authority.as_str().strip_prefix(authority.host()).unwrap_or("@");
        // A Host names no user (RFC 9110, section 7.2).
        if value.contains('@') || (!port.is_empty() && authority.port_u16().is_none()) {
            return false;
        }
        let whole = authority.as_str().to_ascii_lowercase();
        let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
        (self.loopback && is_loopback(&name)) || hosts.iter().any(|host| *host == name || *host == whole)
    }

    /// Whether pages of this origin may call.
    #[must_use]
    pub fn allow_origin(&self, value: &str) -> bool {
        let listed = |origins: &Vec<String>| origins.iter().any(|origin| origin.eq_ignore_ascii_case(value));
        self.origins.as_ref().is_none_or(listed)
    }
}

fn is_loopback(name: &str) -> bool {
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || literal.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_the_public_host_are_allowed_and_nothing_like_them() {
        let sites = Sites::new(&Config::default(), "https://Inbox.example.com:8443/base");
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "[::1]:9",
            "inbox.example.com",
            "inbox.example.com.:1",
        ] {
            assert!(sites.allow_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "a@localhost",
            "a@127.0.0.1:80",
            "inbox.example.com.evil",
            "10.0.0.1",
            "localhost:99999",
            "localhost:",
        ] {
            assert!(!sites.allow_host(host), "{host}");
        }
    }

    #[test]
    fn a_list_replaces_loopback_and_keeps_the_public_url() {
        let list = |names: &[&str]| Allowed::List(names.iter().map(|name| (*name).to_owned()).collect());
        let config = Config {
            allowed_hosts: Some(list(&["a.example", "b.example:81"])),
            allowed_origins: list(&["https://app.example"]),
            ..Config::default()
        };
        let sites = Sites::new(&config, "http://inbox.example:80");
        assert!(["a.example:5", "b.example:81", "inbox.example"].iter().all(|host| sites.allow_host(host)));
        assert!(["b.example", "localhost"].iter().all(|host| !sites.allow_host(host)));
        assert!(
            ["https://app.example", "http://inbox.example:80"].iter().all(|site| sites.allow_origin(site))
        );
        assert!(["http://app.example", "null"].iter().all(|site| !sites.allow_origin(site)));
    }
}
