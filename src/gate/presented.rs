//! The credentials that headers carry.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::call::{Error, Result};

/// The keys of one request's headers, not judged yet.
#[derive(Clone, Default)]
pub struct Presented {
    agent_keys: Vec<String>,
    /// `X-Owner-Key`.
    pub(super) owner_key: Option<String>,
    is_broken: bool,
}

impl Presented {
    /// Reads `Authorization: Bearer`, `X-API-Key` and `X-Owner-Key`.
    pub fn from_headers(headers: &HeaderMap) -> Presented {
        let mut presented = Presented::default();
        for value in headers.get_all(AUTHORIZATION) {
            match value.to_str().ok().and_then(bearer) {
                Some(key) => presented.agent_keys.push(key.to_owned()),
                None => presented.is_broken = true,
            }
        }
        for value in headers.get_all("x-api-key") {
            match value.to_str() {
                Ok(key) => presented.agent_keys.push(key.trim().to_owned()),
                Err(_) => presented.is_broken = true,
            }
        }
        let mut owner_keys = headers.get_all("x-owner-key").iter();
        match (owner_keys.next().map(|value| value.to_str()), owner_keys.next()) {
            (None, _) => {}
            (Some(Ok(key)), None) => presented.owner_key = Some(key.trim().to_owned()),
            _ => presented.is_broken = true,
        }
        presented
    }

    /// The agent key; two headers must agree.
    pub(super) fn agent_key(&self) -> Result<Option<String>> {
        if self.is_broken {
            return Err(Error::Unauthorized(BROKEN));
        }
        match self.agent_keys.split_first() {
            None => Ok(None),
            Some((key, rest)) if rest.iter().all(|other| other == key) => Ok(Some(key.clone())),
            Some(_) => Err(Error::Unauthorized(super::DIFFERENT_KEYS)),
        }
    }
}

const BROKEN: &str = "The credential header is not readable. Send Authorization: Bearer and the key.";

/// The scheme is case-insensitive (RFC 9110).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, key) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
