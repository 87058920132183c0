//! What an agent reads in its own mailbox when its webhook is given up.

use serde_json::Value;
use uuid::Uuid;

use super::Reason;
use crate::inbox::{Key, Letter, Posting, Sender};

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
        only_with_ack: false,
        key: Some(key),
        trace: None,
    }
}

fn letter(agent_id: Uuid, reason: Reason) -> Letter {
    Letter {
        to: agent_id,
        message_id: Uuid::now_v7(),
        sender: Sender::System,
        message_type: "system".into(),
        body: format!(
            "Your webhook was disabled ({reason}): it is not told of mail any more. Your mail is all here: read it \
             with mailbox_check. When the endpoint works again, call webhook_verify, or webhook_register for another."
        ),
        parts: None,
        thread_id: None,
        in_reply_to: None,
        ack_requested: false,
        ack_deadline: None,
        probe_nonce: None,
        counted: false,
        heeds_policy: false,
    }
}
