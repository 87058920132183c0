//! Proof that an endpoint wants to be told: it echoes what it is asked.

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;

use super::Reason;
use crate::egress::{Egress, Outgoing, Policy};

/// Asks an endpoint to echo the challenge: `GET url?challenge=…`, answered 2xx with the bare challenge, or with
/// JSON that has it as its `challenge`. A page that only quotes what it was asked proves nothing.
pub async fn ask(egress: &Egress, policy: &Policy, url: &str, challenge: &str) -> Result<(), Reason> {
    let target = egress.parse(url).map_err(Reason::Refused)?;
    policy.judge(&target).map_err(Reason::Refused)?;
    let asking = target.with_query("challenge", challenge);
    let outgoing =
        Outgoing { method: Method::GET, headers: HeaderMap::new(), body: Bytes::new(), reads_body: true };
    let answer = egress.send(&asking, outgoing).await?;
    match Reason::of_status(answer.status) {
        Some(reason) => Err(reason),
        None if is_echo(&answer.body, challenge) => Ok(()),
        None => Err(Reason::WrongEcho),
    }
}

fn is_echo(body: &[u8], challenge: &str) -> bool {
    let text = String::from_utf8_lossy(body);
    let in_json = || serde_json::from_slice::<Value>(body).is_ok_and(|body| body["challenge"] == challenge);
    text.trim() == challenge || in_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bare_challenge_is_an_echo() {
        for body in ["abc", " abc\r\n", "{\"challenge\":\"abc\"}"] {
            assert!(is_echo(body.as_bytes(), "abc"), "{body}");
        }
        for body in ["", "abcd", "you asked for ?challenge=abc", "{\"echo\":\"abc\"}", "[\"abc\"]"] {
            assert!(!is_echo(body.as_bytes(), "abc"), "{body}");
        }
    }
}
