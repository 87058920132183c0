//! How the text of a setting becomes a value. `None` means that it cannot; no text is ever echoed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ipnet::IpNet;

/// A value that `Debug` does not show. Only [`Secret::reveal`] gives it out.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Keeps `value` out of logs and panics from here on.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that uses it.
    pub const fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Which hosts or origins may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// All of them (`*`).
    Any,
    /// These, lower case, beside what the public URL names.
    List(Vec<String>),
}

/// `Some(None)` for `off`.
pub(super) fn address_or_off(text: &str) -> Option<Option<SocketAddr>> {
    if text == "off" { Some(None) } else { text.parse().ok().map(Some) }
}

/// An http or https URL without credentials, query or fragment; a trailing slash is dropped.
pub(super) fn url(text: &str) -> Option<String> {
    let uri: http::Uri = text.parse().ok()?;
    let web = matches!(uri.scheme_str(), Some("http" | "https"));
    let plain = !text.contains(['?', '#', '@']) && uri.host().is_some_and(|host| !host.is_empty());
    (web && plain).then(|| text.trim_end_matches('/').to_owned())
}

pub(super) fn postgres_url(text: &str) -> Option<Secret<String>> {
    let known = text.starts_with("postgres://") || text.starts_with("postgresql://");
    known.then(|| Secret::new(text.to_owned()))
}

/// Comma-separated names; at least one, none empty, none twice.
pub(super) fn list(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    let odd =
        |(at, name): (usize, &String)| name.is_empty() || names.iter().take(at).any(|other| other == name);
    (!names.iter().enumerate().any(odd)).then_some(names)
}

pub(super) fn hosts(text: &str) -> Option<Allowed> {
    let names = list(text)?;
    if names == ["*"] {
        return Some(Allowed::Any);
    }
    let host =
        |name: &String| !name.contains(['/', '@', '*']) && name.parse::<http::uri::Authority>().is_ok();
    names.iter().all(host).then_some(Allowed::List(names))
}

pub(super) fn origins(text: &str) -> Option<Allowed> {
    let names = list(text)?;
    if names == ["*"] {
        return Some(Allowed::Any);
    }
    let bare =
        |name: &String| url(name).is_some_and(|clean| clean == *name) && name.matches('/').count() == 2;
    names.iter().all(bare).then_some(Allowed::List(names))
}

/// CIDR networks; a single address stands for itself.
pub(super) fn networks(text: &str) -> Option<Vec<IpNet>> {
    let network = |name: String| name.parse().ok().or_else(|| name.parse::<IpAddr>().ok().map(IpNet::from));
    list(text)?.into_iter().map(network).collect()
}

pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=3600.0).contains(seconds))?;
    Some(Duration::from_secs_f64(seconds))
}

pub(super) fn key(text: &str) -> Option<Secret<[u8; 32]>> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&STANDARD, lenient).decode(text.trim()).ok()?;
    bytes.try_into().ok().map(Secret::new)
}
