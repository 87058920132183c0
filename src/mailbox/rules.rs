//! Decisions of the mailbox tools that need no database.

use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::call::{Error, Result};
use crate::error::ProbePart;

/// Most Unicode scalar values of a message body.
pub const BODY_CHARS: usize = 8_000;
/// Most bytes of serialised parts.
pub const PARTS_BYTES: usize = 16 * 1024;
/// Longest hold of a check or a stream, in seconds.
pub const LONGEST_WAIT: i64 = 25;

/// The hold that a call gets for the hold it asks for: clamped, never an error.
pub fn clamp_wait(asked: i64) -> i64 {
    asked.clamp(0, LONGEST_WAIT)
}

/// How often a stream shows that it lives when asked for that: clamped, never an error.
pub fn heartbeat(asked: Option<f64>) -> Duration {
    const USUAL: f64 = 15.0;
    Duration::from_secs_f64(asked.unwrap_or(USUAL).clamp(1.0, 60.0))
}

/// Judges a body by its length in Unicode scalar values.
pub fn judge_body(body: &str) -> Result<()> {
    match body.chars().nth(BODY_CHARS) {
        Some(_) => Err(Error::MessageTooLarge { limit: BODY_CHARS }),
        None => Ok(()),
    }
}

/// Judges A2A parts: each has `text` or `data`, and together they are at most 16 KB of JSON.
pub fn judge_parts(parts: &str) -> Result<()> {
    if parts.len() > PARTS_BYTES {
        return Err(Error::PartsTooLarge { limit: PARTS_BYTES });
    }
    let parts: Value = serde_json::from_str(parts).map_err(Error::internal)?;
    for (place, part) in parts.as_array().into_iter().flatten().enumerate() {
        let has_text = part.get("text").is_some_and(Value::is_string);
        if has_text == part.get("data").is_some() {
            return Err(Error::invalid(
                format!("parts[{place}]"),
                "must have either a text (a string) or data",
            ));
        }
        if part.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
            return Err(Error::invalid(format!("parts[{place}].metadata"), "must be an object"));
        }
    }
    Ok(())
}

/// Judges a key that makes retries safe: 1 to `most` characters, not blank.
pub fn judge_key(field: &'static str, key: Option<&str>, most: usize) -> Result<()> {
    match key {
        Some(key) if key.trim().is_empty() || key.chars().nth(most).is_some() => {
            Err(Error::invalid(field, format!("must be 1 to {most} characters and not blank")))
        }
        _ => Ok(()),
    }
}

/// Judges the proof that acks a probe: `{nonce, body_hash}` with the probe's nonce and
/// the hex SHA-256 of the nonce followed by the body.
pub fn judge_proof(message_id: Uuid, nonce: &str, body: &str, proof: Option<&Value>) -> Result<()> {
    let said = |name: &str| proof.and_then(|proof| proof.get(name)?.as_str());
    if said("nonce") != Some(nonce) {
        return Err(Error::ProbeMismatch { part: ProbePart::Nonce, message_id });
    }
    let expected = Sha256::new_with_prefix(nonce).chain_update(body).finalize();
    let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
    match said("body_hash").is_some_and(|said| said.eq_ignore_ascii_case(&expected)) {
        true => Ok(()),
        false => Err(Error::ProbeMismatch { part: ProbePart::BodyHash, message_id }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_are_clamped() {
        assert_eq!([-5, 0, 7, 25, 26, i64::MAX].map(clamp_wait), [0, 0, 7, 25, 25, 25]);
    }

    #[test]
    fn bodies_are_measured_in_scalar_values() {
        assert!(judge_body(&"𝒳".repeat(BODY_CHARS)).is_ok());
        assert!(judge_body(&"x".repeat(BODY_CHARS + 1)).is_err());
    }

    #[test]
    fn parts_have_text_or_data() {
        assert!(judge_parts(r#"[{"text": "hi"}, {"data": {"a": 1}, "metadata": {}}]"#).is_ok());
        for wrong in [
            json!([{}]),
            json!([{"text": "a", "data": 1}]),
            json!([{"text": 1}]),
            json!([{"text": "a", "metadata": 1}]),
        ] {
            assert!(judge_parts(&wrong.to_string()).is_err(), "{wrong}");
        }
        let large = json!([{"text": "x".repeat(PARTS_BYTES)}]);
        assert!(matches!(judge_parts(&large.to_string()), Err(Error::PartsTooLarge { .. })));
    }

    #[test]
    fn a_proof_needs_the_nonce_and_the_hash_of_nonce_and_body() {
        let id = Uuid::now_v7();
        let hash: String = Sha256::digest(b"n1hello").iter().map(|byte| format!("{byte:02x}")).collect();
        let judge = |proof: Option<Value>| judge_proof(id, "n1", "hello", proof.as_ref());
        assert!(judge(Some(json!({"nonce": "n1", "body_hash": hash}))).is_ok());
        let part = |judged: Result<()>| match judged {
            Err(Error::ProbeMismatch { part, .. }) => part,
            other => panic!("{other:?}"),
        };
        assert_eq!(part(judge(None)), ProbePart::Nonce);
        assert_eq!(part(judge(Some(json!({"nonce": "n2", "body_hash": hash})))), ProbePart::Nonce);
        assert_eq!(part(judge(Some(json!({"nonce": "n1", "body_hash": "00"})))), ProbePart::BodyHash);
    }
}
