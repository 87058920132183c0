//! Retries by key: what was stored before is answered again.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Call, Error, Result};
use crate::inbox::{self, Verdict};

/// The earlier answer that a posting's key stands for, marked as a replay.
pub(super) fn replayed<T: DeserializeOwned>(call: &mut Call<'_>, answer: Value) -> Result<T> {
    call.mark_replay();
    serde_json::from_value(answer).map_err(Error::internal)
}

/// What was stored is answered to its retry, though by now the same call would be refused:
/// the recipient blocks, a name means several, a message is gone.
///
/// # Errors
/// `idempotency_conflict` when the key stands for other arguments; `refused` when the key
/// was never used, or when it says nothing about the arguments.
pub(super) async fn answered_before<T: DeserializeOwned>(
    call: &mut Call<'_>,
    namespace: &'static str,
    key: Option<&str>,
    refused: Error,
) -> Result<T> {
    let is_passing = matches!(refused, Error::Unavailable { .. } | Error::Internal(_));
    let Some(key) = key.filter(|_| !is_passing) else { return Err(refused) };
    let (org_id, agent_id) = (call.caller.org.org_id, call.caller.agent()?.agent_id);
    match inbox::answer_of(call.db.get().await?, org_id, agent_id, namespace, key, call.fingerprint.0).await?
    {
        Some(Verdict::Replayed(answer)) => replayed(call, answer),
        Some(_) => Err(Error::IdempotencyConflict(namespace)),
        None => Err(refused),
    }
}
