//! Tools whose repetition would do harm. A request that its client sends again with its id, since a connection broke, gets
//! the result of the first one; while that is carried out, it waits.
//!
//! ```text
//!  request ─▶ claim of its id ─┬─ new ────────▶ the tool ─▶ result stored
//!                              ├─ replay ─────▶ the stored result
//!                              └─ unfinished ─▶ hostd died, and how far it was is not known: see `Unfinished`
//! ```

use super::{
    call::Call,
    tools::{Outcome, ToolAnswer, ToolFailure},
};
use crate::ApiFailure;
use hostd_net::keyed_locks::KeyedLocks;
use hostd_store::{IdempotencyClaim, IdempotencyKey, Store, StoreError};
use protocol::api::ApiErrorCode;
use rmcp::model::JsonObject;
use sha2::{Digest, Sha256};
use tracing::{error, warn};

const MAY_BE_DONE: &str = "hostd was restarted while it carried out this call, which may be done or not: look at the files, \
    and call again if it is needed";

/// What becomes of a request that is sent again and was not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// It is carried out again: its effect is the same.
    Again,
    /// It fails, and the failure says that it may be done.
    Fails,
}

/// Calls that are carried out now, by the ids of their work.
#[derive(Default)]
pub struct CallsInProgress(KeyedLocks<String>);

/// Carries out a tool once for the id of this request. It goes on where the client leaves.
pub async fn run<F>(
    call: &Call,
    (tool, unfinished): (&str, Unfinished),
    arguments: &JsonObject,
    act: F,
) -> ToolAnswer
where
    F: Future<Output = ToolAnswer> + Send + 'static,
{
    let body = serde_json::to_vec(arguments).map_err(|error| ToolFailure::invalid(error.to_string()))?;
    let key = IdempotencyKey {
        tenant: call.caller.tenant.clone(),
        principal: call.caller.principal.clone(),
        route: format!("mcp {tool}"),
        key: call.work_id(),
    };
    let clients = call.clients.clone();
    let work = call.clients.parts.work.spawn(async move {
        let _held = clients.mcp.in_progress.0.lock(key.key.clone()).await;
        let (store, clock) = (&clients.parts.store, clients.parts.clock);
        let hash: [u8; 32] = Sha256::digest(&body).into();
        let claim = store.idempotency_begin(key.clone(), hash, clock.now_ms()).await;
        match claim.map_err(|error| failed(&error))? {
            IdempotencyClaim::New => {}
            IdempotencyClaim::Replay { body, .. } => {
                let result = serde_json::from_slice(&body);
                return Ok(Outcome::Done(result.map_err(|error| ToolFailure::invalid(error.to_string()))?));
            }
            IdempotencyClaim::Mismatch => {
                return Err(ToolFailure::invalid("a request with this id had other arguments: use a new id"));
            }
            IdempotencyClaim::Unfinished { .. } => match unfinished {
                Unfinished::Again => {}
                Unfinished::Fails => return Err(ToolFailure::invalid(MAY_BE_DONE)),
            },
        }
        let answer = act.await;
        keep(store, key, &answer, clock.now_ms()).await;
        answer
    });
    work.await.unwrap_or_else(|error| Err(ToolFailure::invalid(format!("the call ended early: {error}"))))
}

/// Stores a result. A call without one may be repeated.
async fn keep(store: &Store, key: IdempotencyKey, answer: &ToolAnswer, now_ms: u64) {
    let result = match answer {
        Ok(Outcome::Done(result)) => serde_json::to_vec(result).ok(),
        Ok(Outcome::Follow(..)) | Err(_) => None,
    };
    let kept = match result {
        Some(body) => store.idempotency_finish(key, 200, body, now_ms).await,
        None => store.idempotency_abandon(key).await,
    };
    // Not stored, a repetition is told that it may be done.
    kept.unwrap_or_else(|error| warn!(%error, "failed to store the result of a tool"));
}

fn failed(error: &StoreError) -> ToolFailure {
    error!(%error, "the id of a request cannot be claimed");
    let message = "internal error; the log of hostd has the cause";
    ToolFailure::Api(ApiFailure::new(ApiErrorCode::Internal, message))
}
