//! One error of each kind, for documents: codes, statuses and words as callers meet them.

use super::{Error, Liveness, ProbePart};

/// The codes that any tool may answer: those of arguments, credentials and the service itself.
pub const ANYWHERE: [&str; 10] = [
    "malformed_request",
    "validation_error",
    "unknown_field",
    "payload_too_large",
    "unauthorized",
    "forbidden",
    "wrong_organization",
    "rate_limited",
    "temporarily_unavailable",
    "internal_error",
];

/// One error of each code, in the order of their statuses.
pub fn all() -> Vec<Error> {
    let mut kinds: Vec<Error> = std::iter::successors(Some(first()), after).collect();
    kinds.sort_by_key(|kind| kind.verdict().1);
    kinds
}

fn first() -> Error {
    Error::Malformed("a comma is missing".into())
}

/// The kind that follows. It has no catch-all arm, so that a new kind must take its place here.
fn after(kind: &Error) -> Option<Error> {
    let full = |per_sender| Error::MailboxFull { per_sender, liveness: Box::new(Liveness::default()) };
    let mismatch = |part| Error::ProbeMismatch { part, message_id: uuid::Uuid::nil() };
    Some(match kind {
        Error::Malformed(_) => Error::MessageTooLarge { limit: 8000 },
        Error::MessageTooLarge { .. } => Error::PartsTooLarge { limit: 16384 },
        Error::PartsTooLarge { .. } => {
            Error::Unauthorized("Call register to get a key, then send it as Authorization: Bearer.")
        }
        Error::Unauthorized(_) => {
            Error::Forbidden("This credential may not do this: it is of another kind, or of another owner.")
        }
        Error::Forbidden(_) => Error::WrongOrganization,
        Error::WrongOrganization => Error::NotFound("message in this mailbox"),
        Error::NotFound(_) => Error::RecipientAmbiguous { candidates: Vec::new() },
        Error::RecipientAmbiguous { .. } => Error::IdempotencyConflict("client_message_id"),
        Error::IdempotencyConflict(_) => full(false),
        Error::MailboxFull { per_sender: false, .. } => full(true),
        Error::MailboxFull { per_sender: true, .. } => Error::PayloadTooLarge { limit: 262_144 },
        Error::PayloadTooLarge { .. } => Error::invalid("limit", "must be at least 1"),
        Error::Invalid { .. } | Error::UrlRefused { .. } => {
            Error::UnknownField { field: "recipient".into(), suggestion: Some("recipient_agent_id".into()) }
        }
        Error::UnknownField { .. } => mismatch(ProbePart::Nonce),
        Error::ProbeMismatch { part: ProbePart::Nonce, .. } => mismatch(ProbePart::BodyHash),
        Error::ProbeMismatch { part: ProbePart::BodyHash, .. } => {
            Error::RateLimited { what: "registrations from your network", retry_after: 60 }
        }
        Error::RateLimited { .. } => Error::TooManyHolds("for this agent"),
        Error::TooManyHolds(_) => Error::internal("an example"),
        Error::Internal(_) => Error::unavailable("an example"),
        Error::Unavailable { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_code_stands_once_and_those_of_the_tools_are_codes() {
        let all = all();
        let codes: HashSet<&str> = all.iter().map(|kind| kind.verdict().0).collect();
        assert_eq!(codes.len(), all.len());
        assert!(ANYWHERE.iter().all(|code| codes.contains(code)));
        for entry in crate::registry().entries() {
            for code in entry.refuses {
                assert!(codes.contains(code) && !ANYWHERE.contains(code), "{code} of {}", entry.spec.name);
            }
        }
    }
}
