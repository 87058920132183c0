//! Messages that depend on what happened: what is wrong, and what to do next.

use super::ProbePart;

pub(super) fn unknown_field(field: &str, suggestion: &Option<String>) -> String {
    match suggestion {
        Some(suggestion) => format!("The argument {field} does not exist here. Did you mean {suggestion}?"),
        None => format!("The argument {field} does not exist here. Leave it out, or see the input schema."),
    }
}

pub(super) fn mailbox_full(per_sender: bool) -> &'static str {
    match per_sender {
        true => "This recipient still has too many unacked messages from you. Wait until it acks some.",
        false => {
            "The recipient's mailbox is full of unacked mail. Wait until it acks some; do not hammer it."
        }
    }
}

pub(super) fn probe_mismatch(part: ProbePart) -> &'static str {
    match part {
        ProbePart::Nonce => {
            "The message in details.message_id is a probe: ack it with ack_body.nonce as the probe gives it. Nothing was acked."
        }
        ProbePart::BodyHash => {
            "ack_body.body_hash must be the hex SHA-256 of the probe's nonce followed by its body. Nothing was acked."
        }
    }
}

pub(super) fn unavailable(outcome_unknown: bool) -> &'static str {
    match outcome_unknown {
        true => {
            "The connection broke while the call was being stored. Repeat it with the same key to learn the outcome."
        }
        false => "The service cannot do this right now. Try again after details.retry_after seconds.",
    }
}
