//! Every way a call can fail, and what the caller should do next.
//!
//! One list for all doors and toolsets: [`Error::verdict`] gives code, HTTP
//! status and retry; a toolset's dialect only spells it (see `dialect.rs`).

use serde_json::{Map, Value, json};

use crate::egress::Refusal;

pub(crate) mod cause;
pub mod kinds;
mod origins;
mod words;

/// The result of a call or of a step of one.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a call was refused or failed.
///
/// `Display` is the `message` an agent reads: it says what is wrong and what to
/// do next, and holds no rejected value, SQL, path or foreign name.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument has a value that the call cannot take.
    #[error("{field} {problem}")]
    Invalid {
        /// Path of the argument, such as `message_ids[3]`.
        field: String,
        /// What is wanted, to follow the field's name; never what was given.
        problem: String,
    },
    /// A URL that is not called.
    #[error("{field} {}.", refusal.wants())]
    UrlRefused {
        /// The argument.
        field: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// An argument that the tool does not have.
    #[error("{}", words::unknown_field(.field, .suggestion))]
    UnknownField {
        /// The unknown name, cut to 64 characters; `…` when it looked like a credential.
        field: String,
        /// The nearest real argument.
        suggestion: Option<String>,
    },
    /// The bytes are not JSON, or not the JSON a request must be.
    #[error("The request is not valid JSON: {0}. Send one UTF-8 JSON object.")]
    Malformed(String),
    /// A message body over its limit.
    #[error("body: at most {limit} characters. Shorten it, or send it in several messages.")]
    MessageTooLarge {
        /// Most Unicode scalar values.
        limit: usize,
    },
    /// Message parts over their limit.
    #[error("parts: at most {limit} bytes of JSON. Send a link instead, or several messages.")]
    PartsTooLarge {
        /// Most bytes of serialised JSON.
        limit: usize,
    },
    /// A request body over the door's limit.
    #[error("The request body is over {limit} bytes. Send less at once.")]
    PayloadTooLarge {
        /// Most bytes.
        limit: usize,
    },
    /// No credential, or one that does not stand.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// A credential that stands but may not do this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// A credential of another organization at an `/o/{org}` door.
    #[error("This credential belongs to another organization. Use the address you registered at.")]
    WrongOrganization,
    /// What does not exist, or may not be seen: the same bytes for both.
    #[error("No such {0}. Check the id; what you may not see does not exist here.")]
    NotFound(&'static str),
    /// A name that several agents answer to.
    #[error(
        "Several agents have that name. Pick one of details.candidates and send again with recipient_agent_id."
    )]
    RecipientAmbiguous {
        /// At most five, live first.
        candidates: Vec<Candidate>,
    },
    /// A key that was used before with other arguments.
    #[error("{0} was used before with other arguments. Use a new key for a new action.")]
    IdempotencyConflict(&'static str),
    /// A mailbox at its cap.
    #[error("{}", words::mailbox_full(*.per_sender))]
    MailboxFull {
        /// True: the cap for this sender; false: the cap of the mailbox.
        per_sender: bool,
        /// Whether and when the recipient reads its mail.
        liveness: Box<Liveness>,
    },
    /// The proof that a probe asks for is missing or wrong.
    #[error("{}", words::probe_mismatch(*.part))]
    ProbeMismatch {
        /// What does not match.
        part: ProbePart,
        /// The probe's message id.
        message_id: uuid::Uuid,
    },
    /// A limit per time; `retry_after` in seconds.
    #[error("Too many {what} for now. Try again after details.retry_after seconds.")]
    RateLimited {
        /// What there are too many of.
        what: &'static str,
        /// Seconds until it makes sense to try again.
        retry_after: u64,
    },
    /// More held reads and streams than one agent, organization or pod may have.
    #[error("Too many held reads are open {0}. Close one, or call without wait.")]
    TooManyHolds(&'static str),
    /// The database cannot be reached, or calls kept colliding.
    #[error("{}", words::unavailable(*.outcome_unknown))]
    Unavailable {
        /// True: the call may have been carried out.
        outcome_unknown: bool,
        /// What happened, for the log.
        source: Cause,
    },
    /// A fault of ours.
    #[error("Something went wrong on our side. Nothing was stored. Try again later.")]
    Internal(#[source] Cause),
}

/// Why work is turned away at once when too much waits already.
#[derive(Debug, thiserror::Error)]
#[error("too many calls wait for the database")]
pub struct QueueFull;

/// An agent that a name could mean.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Candidate {
    /// Its id, to send to.
    pub agent_id: uuid::Uuid,
    /// Its name as registered.
    pub agent_name: String,
    /// Whether it answered a probe.
    pub verified: bool,
    /// Whether it polled in three or more hours of the last 24.
    pub monitored: bool,
    /// Its last poll, RFC 3339.
    #[serde(with = "crate::instant::option")]
    pub last_polled_at: Option<time::OffsetDateTime>,
}

/// Whether somebody reads a mailbox.
#[derive(Debug, Clone, Default)]
pub struct Liveness {
    /// Polled in three or more distinct hours of the last 24.
    pub monitored: bool,
    /// The last poll.
    pub last_polled_at: Option<time::OffsetDateTime>,
    /// Minutes since then.
    pub minutes_ago: Option<i64>,
    /// The look-up itself failed: nothing of this is known.
    pub is_unknown: bool,
}

/// The half of a probe's proof that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePart {
    /// `nonce` is missing or not the probe's.
    Nonce,
    /// `body_hash` is not the SHA-256 of nonce and body.
    BodyHash,
}

/// Whether the same call can succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Not without changing something.
    Never,
    /// The same call may succeed after so many seconds.
    After(u64),
}

/// Seconds a sender should leave before it tries a full mailbox again.
const FULL_RETRY: u64 = 60;
/// Seconds before a call is worth repeating when the service was not available.
const UNAVAILABLE_RETRY: u64 = 1;
/// The same after a fault of ours, which may have been a passing one.
const INTERNAL_RETRY: u64 = 5;

impl Error {
    /// The stable code (never renamed), the HTTP status and the retry, in one
    /// place: a new kind of error must decide all three.
    pub fn verdict(&self) -> (&'static str, u16, Retry) {
        use Retry::{After, Never};
        match self {
            Error::Invalid { .. } | Error::UrlRefused { .. } => ("validation_error", 422, Never),
            Error::UnknownField { .. } => ("unknown_field", 422, Never),
            Error::Malformed(_) => ("malformed_request", 400, Never),
            Error::MessageTooLarge { .. } => ("message_too_large", 400, Never),
            Error::PartsTooLarge { .. } => ("parts_too_large", 400, Never),
            Error::PayloadTooLarge { .. } => ("payload_too_large", 413, Never),
            Error::Unauthorized(_) => ("unauthorized", 401, Never),
            Error::Forbidden(_) => ("forbidden", 403, Never),
            Error::WrongOrganization => ("wrong_organization", 403, Never),
            Error::NotFound(_) => ("not_found", 404, Never),
            Error::RecipientAmbiguous { .. } => ("recipient_ambiguous", 409, Never),
            Error::IdempotencyConflict(_) => ("idempotency_conflict", 409, Never),
            Error::MailboxFull { per_sender: false, .. } => ("mailbox_full", 409, After(FULL_RETRY)),
            Error::MailboxFull { per_sender: true, .. } => {
                ("mailbox_full_per_sender", 409, After(FULL_RETRY))
            }
            Error::ProbeMismatch { part: ProbePart::Nonce, .. } => ("probe_nonce_mismatch", 422, Never),
            Error::ProbeMismatch { part: ProbePart::BodyHash, .. } => {
                ("probe_body_hash_mismatch", 422, Never)
            }
            Error::RateLimited { retry_after, .. } => ("rate_limited", 429, After(*retry_after)),
            Error::TooManyHolds(_) => ("too_many_holds", 429, After(UNAVAILABLE_RETRY)),
            Error::Unavailable { .. } => ("temporarily_unavailable", 503, After(UNAVAILABLE_RETRY)),
            Error::Internal(_) => ("internal_error", 500, After(INTERNAL_RETRY)),
        }
    }

    /// The advice that stands beside the message, where the contract has one.
    /// `Some(None)` is a published null.
    pub fn hint(&self) -> Option<Option<String>> {
        match self {
            Error::MailboxFull { liveness, .. } => Some(liveness.hint()),
            Error::RecipientAmbiguous { .. } => Some(Some("Candidates are ranked live first.".into())),
            _ => None,
        }
    }

    /// The nearest real name, for a name that does not exist.
    pub fn suggestion(&self) -> Option<&str> {
        match self {
            Error::UnknownField { suggestion, .. } => suggestion.as_deref(),
            _ => None,
        }
    }

    /// Typed details by kind of error; empty for most.
    pub fn details(&self) -> Map<String, Value> {
        let details = match self {
            Error::Invalid { field, .. } => json!({ "field": field }),
            Error::UnknownField { field, .. } => json!({ "field": field }),
            Error::UrlRefused { field, refusal } => json!({ "field": field, "reason": refusal.word() }),
            Error::MessageTooLarge { limit }
            | Error::PartsTooLarge { limit }
            | Error::PayloadTooLarge { limit } => {
                json!({ "limit": limit })
            }
            Error::RecipientAmbiguous { candidates } => json!({ "candidates": candidates }),
            Error::MailboxFull { liveness, .. } => json!({
                "recipient_monitored": liveness.monitored,
                "last_polled_at": liveness.last_polled_at.map(crate::instant::format),
            }),
            Error::ProbeMismatch { message_id, .. } => json!({ "message_id": message_id }),
            Error::Unavailable { outcome_unknown: true, .. } => json!({ "outcome": "unknown" }),
            _ => json!({}),
        };
        let Value::Object(mut details) = details else { return Map::new() };
        if let Retry::After(seconds) = self.verdict().2 {
            details.insert("retry_after".into(), seconds.into());
        }
        details
    }

    /// A fault that the caller's arguments explain: `field` and what is wanted of it.
    pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Invalid { field: field.into(), problem: problem.into() }
    }

    /// Something that will pass, with its cause for the log. Nothing was stored.
    pub fn unavailable(cause: impl Into<Cause>) -> Error {
        Error::Unavailable { outcome_unknown: false, source: cause.into() }
    }

    /// A fault of ours, with its cause for the log.
    pub fn internal(cause: impl Into<Cause>) -> Error {
        Error::Internal(cause.into())
    }
}

impl Liveness {
    /// The short code that tells a sender what to make of a full mailbox.
    fn hint(&self) -> Option<String> {
        match self.minutes_ago {
            _ if self.is_unknown => Some("recipient_liveness_unknown".into()),
            _ if self.monitored => None,
            None => Some("recipient_never_polled".into()),
            Some(minutes) => Some(format!("recipient_last_polled_{minutes}m_ago")),
        }
    }
}
