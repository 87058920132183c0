//! Stream tickets: a minute's leave to open streams of one mailbox, for browsers' `EventSource`, which sends no
//! headers. A JWT (RFC 7519), good on every pod, for nothing else, and only while its agent key stands.

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{AgentSession, Error, Result};
use crate::keys;

/// How long a ticket is good.
const LIFETIME: Duration = Duration::seconds(60);
/// How far the clocks of two pods may be apart, in seconds.
const LEEWAY: u64 = 5;
/// Most characters of a ticket: more cannot be one of ours.
const MOST: usize = 1024;
const ALGORITHM: Algorithm = Algorithm::HS256;
const ISSUER: &str = "waypost";
const AUDIENCE: &str = "waypost inbox stream";
const PURPOSE: &str = "waypost stream ticket";
const NAMING: &str = "waypost stream ticket, key id";

/// Makes and judges tickets. Cheap to clone.
#[derive(Clone)]
pub struct Tickets(Arc<Keys>);

struct Keys {
    sign: EncodingKey,
    verify: DecodingKey,
    /// Of the one key there is: tickets of another deployment are not even tried.
    id: String,
}

/// Whose ticket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The organization.
    pub org_id: Uuid,
    /// The agent.
    pub agent_id: Uuid,
    /// The agent key that got the ticket, and must still stand.
    pub credential_id: Uuid,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    /// The agent.
    sub: Uuid,
    /// Its session: the agent key.
    sid: Uuid,
    org: Uuid,
    iat: u64,
    exp: u64,
}

impl Tickets {
    /// Those of the deployment that has this secret key.
    ///
    /// # Panics
    /// Never: a key of 32 bytes is not empty.
    #[expect(clippy::expect_used, reason = "the only key that is refused is an empty one")]
    pub fn new(secret: &[u8; 32]) -> Tickets {
        let key = keys::of_purpose(secret, PURPOSE);
        let id = keys::of_purpose(secret, NAMING).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Tickets(Arc::new(Keys {
            sign: EncodingKey::from_secret(&key).expect("32 bytes"),
            verify: DecodingKey::from_secret(&key).expect("32 bytes"),
            id,
        }))
    }

    /// A ticket for the streams of this session's agent, and when it ends.
    pub fn make(
        &self,
        org_id: Uuid,
        session: &AgentSession,
        now: OffsetDateTime,
    ) -> Result<(String, OffsetDateTime)> {
        let iat = now.unix_timestamp();
        let expires_at = OffsetDateTime::from_unix_timestamp(iat).map_err(Error::internal)? + LIFETIME;
        let claims = Claims {
            iss: ISSUER.into(),
            aud: AUDIENCE.into(),
            sub: session.agent_id,
            sid: session.credential_id,
            org: org_id,
            iat: iat.unsigned_abs(),
            exp: expires_at.unix_timestamp().unsigned_abs(),
        };
        Ok((self.sign(&claims)?, expires_at))
    }

    /// Whose ticket this is, if it stands: of this deployment, for streams, and of the last minute.
    pub fn read(&self, ticket: &str) -> Option<Holder> {
        let is_ours = |header: Header| header.alg == ALGORITHM && header.kid.as_deref() == Some(&self.0.id);
        if ticket.len() > MOST || !decode_header(ticket).is_ok_and(is_ours) {
            return None;
        }
        let claims = decode::<Claims>(ticket, &self.0.verify, &rules()).ok()?.claims;
        // That there is an iat is seen to by its type; that it lies in the past, by nobody else.
        let is_made = claims.iat <= jsonwebtoken::get_current_timestamp() + LEEWAY;
        is_made.then_some(Holder { org_id: claims.org, agent_id: claims.sub, credential_id: claims.sid })
    }

    fn sign(&self, claims: &impl Serialize) -> Result<String> {
        let header = Header { kid: Some(self.0.id.clone()), ..Header::new(ALGORITHM) };
        encode(&header, claims, &self.0.sign).map_err(Error::internal)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

/// The library checks only `exp` unless told.
fn rules() -> Validation {
    let mut rules = Validation::new(ALGORITHM);
    rules.leeway = LEEWAY;
    rules.validate_nbf = true;
    rules.set_issuer(&[ISSUER]);
    rules.set_audience(&[AUDIENCE]);
    rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    rules
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    fn tickets() -> Tickets {
        Tickets::new(&[7; 32])
    }

    fn now() -> u64 {
        jsonwebtoken::get_current_timestamp()
    }

    /// Claims that are good but for these; null leaves one out.
    fn ticket_with(changes: Value) -> String {
        let mut claims = json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": Uuid::nil(), "sid": Uuid::nil(),
            "org": Uuid::nil(), "iat": now(), "exp": now() + 60 });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        tickets().sign(&claims).unwrap()
    }

    #[test]
    fn a_ticket_is_read_back_on_every_pod_of_its_deployment_and_by_no_other() {
        let session = AgentSession {
            credential_id: Uuid::now_v7(),
            agent_id: Uuid::now_v7(),
            agent_name: "ada".into(),
            owner_id: Uuid::nil(),
            key_prefix: "wpa_".into(),
        };
        let org_id = Uuid::now_v7();
        let at = OffsetDateTime::from_unix_timestamp(now().cast_signed()).unwrap();
        let (ticket, expires_at) = tickets().make(org_id, &session, at).unwrap();
        assert_eq!(expires_at, at + Duration::seconds(60));
        let holder = Holder { org_id, agent_id: session.agent_id, credential_id: session.credential_id };
        assert_eq!(tickets().read(&ticket), Some(holder));
        assert_eq!(Tickets::new(&[8; 32]).read(&ticket), None);
        assert_eq!(format!("{:?}", tickets()), "Tickets");
    }

    #[test]
    fn a_ticket_stands_for_a_minute_and_the_leeway_of_clocks() {
        assert!(tickets().read(&ticket_with(json!({}))).is_some());
        for changes in [
            json!({ "exp": now() - 10 }),
            json!({ "iat": now() + 60 }),
            json!({ "nbf": now() + 60 }),
            json!({ "exp": "soon" }),
        ] {
            assert_eq!(tickets().read(&ticket_with(changes.clone())), None, "{changes}");
        }
        for changes in [json!({ "exp": now() - 3 }), json!({ "iat": now() + 3 }), json!({ "nbf": now() + 3 })]
        {
            assert!(tickets().read(&ticket_with(changes.clone())).is_some(), "{changes}");
        }
    }

    #[test]
    fn every_claim_is_needed_and_must_be_ours() {
        for name in ["iss", "aud", "sub", "sid", "org", "iat", "exp"] {
            assert_eq!(tickets().read(&ticket_with(json!({ name: null }))), None, "without {name}");
            assert_eq!(tickets().read(&ticket_with(json!({ name: "another" }))), None, "another {name}");
        }
    }

    #[test]
    fn another_algorithm_another_key_id_and_an_altered_text_are_refused() {
        let good = ticket_with(json!({}));
        let (_, signed) = good.split_once('.').unwrap();
        let id = &tickets().0.id;
        for header in [
            json!({ "alg": "none", "typ": "JWT", "kid": id }),
            json!({ "alg": "HS512", "typ": "JWT", "kid": id }),
            json!({ "alg": "HS256", "typ": "JWT", "kid": "another" }),
            json!({ "alg": "HS256", "typ": "JWT" }),
        ] {
            let header = URL_SAFE_NO_PAD.encode(header.to_string());
            assert_eq!(tickets().read(&format!("{header}.{signed}")), None);
        }
        let unsigned = good.rsplit_once('.').unwrap().0;
        for bad in ["", "a.b.c", unsigned, &format!("{unsigned}."), &format!("{good}A"), &"x".repeat(5_000)] {
            assert_eq!(tickets().read(bad), None);
        }
        // A key of the same deployment for another purpose signs no tickets.
        let other = EncodingKey::from_secret(&keys::of_purpose(&[7; 32], "something else")).unwrap();
        let header = Header { kid: Some(id.clone()), ..Header::new(ALGORITHM) };
        let claims = decode::<Claims>(&good, &tickets().0.verify, &rules()).unwrap().claims;
        assert_eq!(tickets().read(&encode(&header, &claims, &other).unwrap()), None);
    }
}
