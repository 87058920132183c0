//! What an endpoint is told, and how it is signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::inbox::envelopes::Envelope;
use crate::trace::Trace;

/// "You have mail".
#[derive(Debug, Serialize)]
pub(super) struct Notice<'a> {
    r#type: &'static str,
    agent_id: Uuid,
    pending: i64,
    cursor: i64,
    envelopes: &'a [Envelope],
}

impl Notice<'_> {
    pub(super) fn new(agent_id: Uuid, pending: i64, cursor: i64, envelopes: &[Envelope]) -> Notice<'_> {
        Notice { r#type: "mail", agent_id, pending, cursor, envelopes }
    }
}

/// The same for every try at telling of mail up to `cursor`, and for nothing else: who has it may drop the rest.
pub(super) fn id(agent_id: Uuid, activation: Uuid, cursor: i64) -> String {
    format!("msg_{}_{}_{cursor}", agent_id.simple(), activation.simple())
}

/// The signing key of a secret: its SHA-256 as hexadecimal text, and nothing else of it is kept.
pub fn signing_key(secret: &str) -> String {
    hex(&Sha256::digest(secret))
}

/// The signing key in the form that libraries for Standard Webhooks take.
pub fn whsec(key: &str) -> String {
    format!("whsec_{}", STANDARD.encode(key))
}

/// The headers that prove who sends this body: ours, and those of Standard Webhooks 1.0.0.
pub(super) fn signed(key: &[u8], id: &str, now: i64, body: &Bytes) -> HeaderMap {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let now = now.to_string();
    let ours = hex(mac(&key, &[now.as_bytes(), b".", body]).as_ref());
    let standard = mac(&key, &[id.as_bytes(), b".", now.as_bytes(), b".", body]);
    let standard = format!("v1,{}", STANDARD.encode(standard));
    let pairs = [
        ("x-a2a-timestamp", now.as_str()),
        ("x-a2a-signature", &ours),
        ("webhook-id", id),
        ("webhook-timestamp", &now),
        ("webhook-signature", &standard),
    ];
    let headers = pairs.into_iter().filter_map(|(name, value)| {
        Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
    });
    headers.collect()
}

/// The trace that the newest message is part of, for who follows it further.
pub(super) fn traced(trace: Option<&Trace>) -> HeaderMap {
    let value = trace.and_then(|trace| HeaderValue::from_str(trace.as_str()).ok());
    value.into_iter().map(|value| (HeaderName::from_static(Trace::NAME), value)).collect()
}

fn mac(key: &hmac::Key, parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_that_other_programs_make() {
        // By Python's hmac and hashlib.
        let key = signing_key("hunter2");
        assert_eq!(key, "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7");
        let body = Bytes::from_static(b"{\"type\":\"mail\"}");
        let headers = signed(key.as_bytes(), "msg_1", 1_700_000_000, &body);
        assert_eq!(headers["x-a2a-timestamp"], "1700000000");
        assert_eq!(headers["x-a2a-signature"], A2A);
        assert_eq!(headers["webhook-signature"], STANDARD_WEBHOOKS);
        assert_eq!(headers["webhook-id"], "msg_1");
    }

    const A2A: &str = "ba95c63eaae63b19137f43d46115b1c5c655eea5f16dbccf04aa3642162d8616";
    const STANDARD_WEBHOOKS: &str = "v1,ewyr/7YjCwdLmuXUXxsV8VKXwvMAH3yUdJh1Qamj6n0=";
}
