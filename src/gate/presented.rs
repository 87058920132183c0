//! The credentials that headers carry, and the trace.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::call::{Error, Result};
use crate::trace::Trace;

/// The keys of one request's headers, not judged yet, and the trace it belongs to.
#[derive(Clone, Default)]
pub struct Presented {
    agent_keys: Vec<String>,
    /// `X-Owner-Key`.
    pub(super) owner_key: Option<String>,
    /// A ticket, which stands for a key where a stream is opened.
    ticket: Option<String>,
    /// `traceparent`, if it is one.
    pub(super) trace: Option<Trace>,
    /// What to say about the first header that cannot be read.
    broken: Option<&'static str>,
}

impl Presented {
    /// Reads `Authorization: Bearer`, `X-API-Key`, `X-Owner-Key` and `traceparent`.
    pub fn from_headers(headers: &HeaderMap) -> Presented {
        let mut presented = Presented { trace: Trace::of_headers(headers), ..Presented::default() };
        for value in headers.get_all(AUTHORIZATION) {
            match value.to_str().ok().and_then(bearer) {
                Some(key) => presented.agent_keys.push(key.to_owned()),
                None => presented.is_broken(BAD_AUTHORIZATION),
            }
        }
        for value in headers.get_all("x-api-key") {
            match value.to_str() {
                Ok(key) => presented.agent_keys.push(key.trim().to_owned()),
                Err(_) => presented.is_broken(BAD_API_KEY),
            }
        }
        let mut owner_keys = headers.get_all("x-owner-key").iter();
        match (owner_keys.next().map(|value| value.to_str()), owner_keys.next()) {
            (None, _) => {}
            (Some(Ok(key)), None) => presented.owner_key = Some(key.trim().to_owned()),
            _ => presented.is_broken(BAD_OWNER_HEADER),
        }
        presented
    }

    /// The same with a ticket beside them.
    pub fn with_ticket(self, ticket: Option<String>) -> Presented {
        Presented { ticket, ..self }
    }

    /// The ticket, which must come alone.
    pub(super) fn ticket(&self) -> Result<Option<&str>> {
        let has_keys = self.broken.is_some() || self.owner_key.is_some() || !self.agent_keys.is_empty();
        match &self.ticket {
            Some(_) if has_keys => Err(Error::Unauthorized(super::DIFFERENT_KEYS)),
            ticket => Ok(ticket.as_deref()),
        }
    }

    fn is_broken(&mut self, what_to_do: &'static str) {
        self.broken.get_or_insert(what_to_do);
    }

    /// The agent key; two headers must agree. Any header that cannot be read is refused here.
    pub(super) fn agent_key(&self) -> Result<Option<String>> {
        if let Some(what_to_do) = self.broken {
            return Err(Error::Unauthorized(what_to_do));
        }
        match self.agent_keys.split_first() {
            None => Ok(None),
            Some((key, rest)) if rest.iter().all(|other| other == key) => Ok(Some(key.clone())),
            Some(_) => Err(Error::Unauthorized(super::DIFFERENT_KEYS)),
        }
    }
}

const BAD_AUTHORIZATION: &str =
    "The Authorization header is not readable. Send Authorization: Bearer and the agent key.";
const BAD_API_KEY: &str = "The X-API-Key header is not readable. Send X-API-Key and the agent key.";
const BAD_OWNER_HEADER: &str =
    "The X-Owner-Key header is not readable. Send X-Owner-Key and the owner key, once.";

/// The scheme is case-insensitive (RFC 9110).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, key) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_header_that_cannot_be_read_is_named() {
        let readable = HeaderValue::from_static("wpo_one");
        let broken = HeaderValue::from_bytes(b"\xff").unwrap();
        for (name, values) in [
            ("Authorization", vec![readable.clone()]),
            ("X-API-Key", vec![broken.clone()]),
            ("X-Owner-Key", vec![broken]),
            ("X-Owner-Key", vec![readable.clone(), readable]),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
            }
            let refused = Presented::from_headers(&headers).agent_key().unwrap_err();
            assert!(refused.to_string().starts_with(&format!("The {name} header")), "{refused}");
        }
    }
}
