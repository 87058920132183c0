//! Why a call to an endpoint counts as failed, in one word.

use std::fmt;

use crate::egress::{Failure, Refusal};

/// Kept with the webhook and shown to its agent. Tells nothing of what the endpoint sent but its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The URL may not be called now.
    Refused(Refusal),
    /// No connection.
    Unreachable,
    /// It took longer than 15 seconds.
    TimedOut,
    /// No answer of HTTP.
    BrokenAnswer,
    /// More than 64 KiB.
    AnswerTooLarge,
    /// A redirect, which is not followed.
    Redirected,
    /// A status that says no.
    Status(u16),
    /// The challenge did not come back.
    WrongEcho,
}

impl Reason {
    /// What a status says; nothing when it is fine.
    pub fn of_status(status: u16) -> Option<Reason> {
        match status {
            200..=299 => None,
            300..=399 => Some(Reason::Redirected),
            other => Some(Reason::Status(other)),
        }
    }

    /// Whether the endpoint asks never to be called again.
    pub fn is_final(self) -> bool {
        self == Reason::Status(410)
    }
}

impl From<Failure> for Reason {
    fn from(failure: Failure) -> Reason {
        match failure {
            Failure::Refused(refusal) => Reason::Refused(refusal),
            Failure::Unreachable => Reason::Unreachable,
            Failure::TimedOut => Reason::TimedOut,
            Failure::Broken => Reason::BrokenAnswer,
            Failure::TooLarge => Reason::AnswerTooLarge,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Refused(refusal) => refusal.fmt(out),
            Reason::Unreachable => out.write_str("unreachable"),
            Reason::TimedOut => out.write_str("timed_out"),
            Reason::BrokenAnswer => out.write_str("broken_answer"),
            Reason::AnswerTooLarge => out.write_str("answer_too_large"),
            Reason::Redirected => out.write_str("redirected"),
            Reason::Status(status) => write!(out, "status_{status}"),
            Reason::WrongEcho => out.write_str("challenge_not_echoed"),
        }
    }
}
