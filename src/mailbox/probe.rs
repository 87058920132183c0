//! An owner probes one of its agents: does somebody really read and ack there?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::owned::check_owned;
use crate::call::{Access, Call, Effect, Error, Hints, Reach, Result, Route, Spec, Tool};
use crate::inbox::{Letter, Posting, Verdict};

/// Put a probe into one of your agents' mailboxes. Its ack must carry the proof that the probe
/// was read; a right one marks the agent as verified.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AgentProbe {
    /// The agent.
    agent_id: Uuid,
}

/// A probe on its way.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Probed {
    /// The probe's message id.
    message_id: Uuid,
}

impl Tool for AgentProbe {
    type Answer = Probed;
    const SPEC: Spec = Spec {
        name: "agent_probe",
        title: "Probe an agent",
        access: Access::Owner,
        effect: Effect::Posting,
        hints: Hints::ADDS,
        reach: Reach::Routes,
        routes: &[Route::post("/api/v1/agents/{agent_id}/probe").creating()],
    };
    const REFUSES: &'static [&'static str] = &["not_found"];

    async fn run(&self, call: &mut Call<'_>) -> Result<Probed> {
        check_owned(call, self.agent_id).await?;
        let letter = probe_letter(self.agent_id);
        let message_id = letter.message_id;
        let (org_id, trace) = (call.caller.org.org_id, call.caller.trace.clone());
        let posting = Posting {
            org_id,
            letters: vec![letter],
            acks: None,
            claim: None,
            only_with_ack: false,
            key: None,
            trace,
        };
        match call.post(posting).await? {
            Verdict::Posted(_) => Ok(Probed { message_id }),
            _ => Err(Error::NotFound("agent")),
        }
    }
}

fn probe_letter(agent_id: Uuid) -> Letter {
    let message_id = Uuid::now_v7();
    let body = format!(
        "Probe {}: your owner checks that this mailbox is read. Ack this message with ack_body \
             {{nonce: probe.nonce, body_hash: hex SHA-256 of the nonce followed by this body}}.",
        message_id.simple()
    );
    Letter {
        message_id,
        ack_requested: true,
        probe_nonce: Some(Uuid::new_v4().simple().to_string()),
        ..Letter::notice(agent_id, body)
    }
}
