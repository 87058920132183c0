//! Every kind of error, in every toolset's words.

use std::collections::HashSet;

use serde_json::Value;
use waypost::call::Error;
use waypost::egress::Refusal;
use waypost::error::{Candidate, Liveness, ProbePart, Retry};

use super::json_schema;

/// The kind after this one; the first for `None`. There is no catch-all arm: a new kind has to take its place
/// in the row, which the test below walks to its end.
fn next(kind: Option<&Error>) -> Option<Error> {
    let Some(kind) = kind else {
        return Some(Error::invalid("limit", "must be a whole number from 1 to 100"));
    };
    Some(match kind {
        Error::Invalid { .. } => Error::UrlRefused { field: "url", refusal: Refusal::NotPublic },
        Error::UrlRefused { .. } => {
            Error::UnknownField { field: "bodi".into(), suggestion: Some("body".into()) }
        }
        Error::UnknownField { suggestion: Some(_), .. } => {
            Error::UnknownField { field: "zzz".into(), suggestion: None }
        }
        Error::UnknownField { .. } => Error::Malformed("expected value at line 1 column 1".into()),
        Error::Malformed(_) => Error::MessageTooLarge { limit: 8_000 },
        Error::MessageTooLarge { .. } => Error::PartsTooLarge { limit: 16_384 },
        Error::PartsTooLarge { .. } => Error::PayloadTooLarge { limit: 262_144 },
        Error::PayloadTooLarge { .. } => Error::Unauthorized("This needs an agent key. Call register."),
        Error::Unauthorized(_) => Error::Forbidden("This agent belongs to another owner."),
        Error::Forbidden(_) => Error::WrongOrganization,
        Error::WrongOrganization => Error::NotFound("agent"),
        Error::NotFound(_) => Error::RecipientAmbiguous { candidates: vec![candidate()] },
        Error::RecipientAmbiguous { .. } => Error::IdempotencyConflict("ack_id"),
        Error::IdempotencyConflict(_) => Error::MailboxFull { per_sender: false, liveness: Box::default() },
        Error::MailboxFull { per_sender: false, .. } => {
            let liveness = Liveness { monitored: true, ..Liveness::default() };
            Error::MailboxFull { per_sender: true, liveness: Box::new(liveness) }
        }
        Error::MailboxFull { .. } => {
            Error::ProbeMismatch { part: ProbePart::Nonce, message_id: uuid::Uuid::nil() }
        }
        Error::ProbeMismatch { part: ProbePart::Nonce, message_id } => {
            Error::ProbeMismatch { part: ProbePart::BodyHash, message_id: *message_id }
        }
        Error::ProbeMismatch { .. } => Error::RateLimited { what: "registrations", retry_after: 3_600 },
        Error::RateLimited { .. } => Error::TooManyHolds("for this agent"),
        Error::TooManyHolds(_) => Error::Unavailable { outcome_unknown: false, source: SECRET.into() },
        Error::Unavailable { outcome_unknown: false, .. } => {
            Error::Unavailable { outcome_unknown: true, source: SECRET.into() }
        }
        Error::Unavailable { .. } => Error::internal(SECRET),
        Error::Internal(_) => return None,
    })
}

/// Stands for what a cause may hold and no caller may read.
const SECRET: &str = "select secret from somewhere";

fn candidate() -> Candidate {
    Candidate {
        agent_id: uuid::Uuid::nil(),
        agent_name: "Ada".into(),
        verified: false,
        monitored: true,
        last_polled_at: None,
    }
}

fn every_kind() -> Vec<Error> {
    let mut kinds = Vec::new();
    while let Some(kind) = next(kinds.last()) {
        kinds.push(kind);
        assert!(kinds.len() < 100, "the row of kinds has no end");
    }
    kinds
}

/// The words and statuses of the mailbox toolset, as published.
const MAILBOX: [(&str, u16); 21] = [
    ("validation_error", 422),
    ("unknown_field", 422),
    ("probe_nonce_mismatch", 422),
    ("probe_body_hash_mismatch", 422),
    ("message_too_large", 400),
    ("parts_too_large", 400),
    ("malformed_request", 400),
    ("unauthorized", 401),
    ("forbidden", 403),
    ("wrong_organization", 403),
    ("not_found", 404),
    ("recipient_ambiguous", 409),
    ("idempotency_conflict", 409),
    ("mailbox_full", 409),
    ("mailbox_full_per_sender", 409),
    ("payload_too_large", 413),
    ("unsupported_media", 415),
    ("rate_limited", 429),
    ("too_many_holds", 429),
    ("internal_error", 500),
    ("temporarily_unavailable", 503),
];

/// Said by the HTTP layer, before any tool.
const OF_THE_HTTP_LAYER: &str = "unsupported_media";

#[test]
fn every_kind_of_error_has_its_word_status_and_retry() {
    let mut words = HashSet::new();
    for error in every_kind() {
        let (code, status, retry) = error.verdict();
        words.insert(code);
        assert!(MAILBOX.contains(&(code, status)), "{code} {status} is not published");
        let waits = matches!(status, 429 | 500 | 503) || code.starts_with("mailbox_full");
        assert_eq!(matches!(retry, Retry::After(_)), waits, "{code}");
    }
    for (code, _) in MAILBOX {
        assert!(words.contains(code) || code == OF_THE_HTTP_LAYER, "no kind of error says {code}");
    }
}

#[test]
fn every_toolset_spells_every_kind_of_error() {
    for toolset in waypost::registry().toolsets() {
        let schema = toolset.dialect.failure_schema();
        for error in every_kind() {
            let (code, _, retry) = error.verdict();
            let failure = toolset.dialect.failure(&error);
            json_schema::validate(&schema, &failure)
                .unwrap_or_else(|fault| panic!("{code}: {fault}: {failure}"));
            let members = Value::Object(toolset.dialect.members(&error));
            let message = members["message"].as_str().unwrap();
            assert!(message.ends_with(['.', '?']) || message.contains(" must "), "{code}: {message}");
            assert!(!message.contains('\n') && !failure.to_string().contains(SECRET), "{code}: {message}");
            assert_eq!(members["retryable"], matches!(retry, Retry::After(_)), "{code}");
            let seconds = match retry {
                Retry::After(seconds) => Value::from(seconds),
                Retry::Never => Value::Null,
            };
            assert_eq!(members["details"]["retry_after"], seconds, "{code}");
        }
    }
}
