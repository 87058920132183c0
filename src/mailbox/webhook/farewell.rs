//! What an agent reads in its own mailbox when its webhook is given up.

use serde_json::Value;
use uuid::Uuid;

use super::Reason;
use crate::inbox::{Key, Letter, Posting};

/// The notice, once for each activation.
pub(super) fn posting((org_id, agent_id): (Uuid, Uuid), activation: Uuid, reason: Reason) -> Posting {
    let key = Key {
        agent_id,
        namespace: "webhook_disabled",
        key: activation.to_string(),
        fingerprint: [0; 32],
        answer: Box::new(|_| Value::Null),
    };
    Posting {
        org_id,
        letters: vec![letter(agent_id, reason)],
        acks: None,
        claim: None,
        only_with_ack: false,
        key: Some(key),
        trace: None,
    }
}

fn letter(agent_id: Uuid, reason: Reason) -> Letter {
    Letter::notice(
        agent_id,
        format!(
            "Your webhook was disabled ({reason}): it is not told of mail any more. Your mail is all here: read it \
             with mailbox_check. When the endpoint works again, call webhook_verify, or webhook_register for another."
        ),
    )
}
