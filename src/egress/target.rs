//! A URL that may be called, judged by its text alone.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

/// The ports of HTTPS that may be called.
const PORTS: [u16; 2] = [443, 8443];

/// Names that stand for something inside, wherever they are looked up.
const INSIDE: [&str; 14] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "arpa",
    "onion",
    "invalid",
    "alt",
    "cluster",
];

/// Where a request goes: what is left of a URL that may be called. Its name is looked up and judged at each use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(super) url: Url,
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

/// Why a URL is not called. One word each, and the same for everything inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is no URL, or one that programs read in different ways.
    NotAUrl,
    /// It is not HTTPS.
    NotHttps,
    /// It carries a user or a password.
    Credentials,
    /// Its port is neither 443 nor 8443.
    Port,
    /// It names an address instead of a host.
    Literal,
    /// Its host has no public address, or not only such.
    NotPublic,
    /// The organization does not allow its host.
    NotAllowed,
}

impl Refusal {
    /// Every one of them.
    pub const ALL: [Refusal; 7] = [
        Refusal::NotAUrl,
        Refusal::NotHttps,
        Refusal::Credentials,
        Refusal::Port,
        Refusal::Literal,
        Refusal::NotPublic,
        Refusal::NotAllowed,
    ];

    /// Its word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Refusal::NotAUrl => "not_a_url",
            Refusal::NotHttps => "not_https",
            Refusal::Credentials => "has_credentials",
            Refusal::Port => "port_not_allowed",
            Refusal::Literal => "literal_address",
            Refusal::NotPublic => "host_not_public",
            Refusal::NotAllowed => "host_not_allowed",
        }
    }

    /// What is wanted instead, to follow the field's name.
    pub fn wants(self) -> &'static str {
        match self {
            Refusal::NotAUrl => "must be a plain https URL such as https://hooks.example.com/mail",
            Refusal::NotHttps => "must begin with https://",
            Refusal::Credentials => "must not carry a user or password; the signature proves who calls",
            Refusal::Port => "must use port 443 or 8443",
            Refusal::Literal => "must name a host, not an address",
            Refusal::NotPublic => "must name a host that resolves to public addresses only",
            Refusal::NotAllowed => "must name a host on your organization's egress allowlist",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

impl Target {
    /// Judges a URL. With `loopback` it may name this machine, at any port.
    ///
    /// # Errors
    /// The first reason not to call it.
    pub fn parse(text: &str, loopback: bool) -> Result<Target, Refusal> {
        // Parsers drop or turn around these; a URL that needs it is read differently elsewhere.
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(Refusal::NotAUrl);
        }
        let url = Url::parse(text).map_err(|_| Refusal::NotAUrl)?;
        if url.scheme() != "https" {
            return Err(Refusal::NotHttps);
        }
        if !url.username().is_empty() || url.password().is_some() || text.contains('@') && has_user(text) {
            return Err(Refusal::Credentials);
        }
        let host = url.host().ok_or(Refusal::NotAUrl)?.to_owned();
        let port = url.port_or_known_default().ok_or(Refusal::Port)?;
        let is_here = loopback && is_loopback(&host);
        if !is_here {
            judge(&host)?;
            if !PORTS.contains(&port) {
                return Err(Refusal::Port);
            }
        }
        Ok(Target { url, host, port })
    }

    /// The URL, as it is called.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Host and port: what calls are bounded by.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The host's name, lower case, without a dot at its end.
    pub fn host(&self) -> String {
        let name = self.host.to_string();
        name.strip_suffix('.').map_or(name.clone(), str::to_owned)
    }

    /// The same with one more parameter in its query.
    #[must_use]
    pub fn with_query(&self, name: &str, value: &str) -> Target {
        let mut target = self.clone();
        target.url.query_pairs_mut().append_pair(name, value);
        target
    }
}

/// An empty user is dropped by the parser, and was written all the same.
fn has_user(text: &str) -> bool {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

fn is_loopback(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// A name with at least two parts, the last of which is not one that stands for something inside.
fn judge(host: &Host<String>) -> Result<(), Refusal> {
    let Host::Domain(name) = host else { return Err(Refusal::Literal) };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.parse::<IpAddr>().is_ok() {
        return Err(Refusal::Literal);
    }
    let parts: Vec<&str> = name.split('.').collect();
    if name.len() > 253 || parts.iter().any(|part| part.is_empty() || part.len() > 63) {
        return Err(Refusal::NotAUrl);
    }
    match parts.last() {
        Some(last) if parts.len() > 1 && !INSIDE.contains(last) => Ok(()),
        _ => Err(Refusal::NotPublic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_https_urls_are_taken_as_they_are() {
        for text in [
            "https://example.com/",
            "https://hooks.example.com/a/b?c=d",
            "https://hooks.example.com:8443/",
            "https://EXAMPLE.com./x",
            "https://bücher.example.com/",
            "https://a-b.c-d.example.com/%7Euser/@me",
        ] {
            assert!(Target::parse(text, false).is_ok(), "{text}");
        }
        let target = Target::parse("https://EXAMPLE.com./x?y=1", false).unwrap();
        assert_eq!((target.host().as_str(), target.port), ("example.com", 443));
        assert_eq!(target.with_query("challenge", "a b").url(), "https://example.com./x?y=1&challenge=a+b");
    }

    #[test]
    fn this_machine_is_called_only_where_that_is_asked_for_and_at_any_port() {
        for text in ["https://127.0.0.1:4443/", "https://localhost:5/", "https://[::1]:6/"] {
            assert!(Target::parse(text, true).is_ok(), "{text}");
            assert!(Target::parse(text, false).is_err(), "{text}");
        }
        for text in ["http://127.0.0.1/", "https://10.0.0.1/", "https://example.com:5/"] {
            assert!(Target::parse(text, true).is_err(), "{text}");
        }
    }

    #[test]
    fn every_refusal_has_a_word_of_its_own() {
        let words: std::collections::HashSet<&str> =
            Refusal::ALL.iter().map(|refusal| refusal.word()).collect();
        assert_eq!(words.len(), Refusal::ALL.len());
    }
}
