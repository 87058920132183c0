//! The Rust code of docs/webhooks.md, as the page shows it below this line.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};

/// `headers` with lower-case names, `body` as it came.
pub fn is_genuine(secret: &str, headers: &HashMap<String, String>, body: &[u8]) -> Option<bool> {
    let hash = digest::digest(&digest::SHA256, secret.as_bytes());
    let key: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let sent_at = headers.get("webhook-timestamp")?;
    let mut signed = format!("{}.{sent_at}.", headers.get("webhook-id")?).into_bytes();
    signed.extend_from_slice(body);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let is_fresh = now.abs_diff(sent_at.parse().ok()?) <= 300;
    let signatures = headers.get("webhook-signature")?.split(' ');
    let mut given = signatures.filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
    Some(is_fresh && given.any(|one| hmac::verify(&key, &signed, &one).is_ok()))
}
