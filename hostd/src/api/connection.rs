//! The way from a task to its model, where the agent needs one.

use super::{call::Call, failure::Failure, task_agent::Choice};
use crate::{
    agents::{Connection, model_is_plain},
    models::{Dialect, GrantWish},
    store::{SandboxRecord, TaskGrant},
};
use protocol::api::{ApiError, ApiErrorCode, TaskCreate};
use std::collections::BTreeSet;

/// The model that the task gets, and what is written down about that. None for an agent that has a way of its own.
pub async fn connect(
    call: &Call,
    create: &TaskCreate,
    choice: Choice<'_>,
    sandbox: &SandboxRecord,
) -> Result<Option<(Connection, TaskGrant)>, Failure> {
    if choice.entry.dialects.is_empty() {
        return match create.budget {
            Some(_) => {
                let message =
                    format!("the agent {} uses no model of ours, so nothing is counted", choice.name);
                Err(Failure::invalid("budget", message))
            }
            None => Ok(None),
        };
    }
    let wish = GrantWish {
        tenant: &sandbox.owner.tenant,
        model: create.model.clone(),
        dialects: &choice.entry.dialects,
        budget: create.budget,
    };
    let granted = call.api.fleet.models().grant(wish).await?;
    if !model_is_plain(&granted.model.name) {
        let message =
            format!("no agent can be told the name {:?}: give the model an alias", granted.model.name);
        let error = ApiError::new(ApiErrorCode::NoModel, message);
        return Err(error.with(|detail| detail.field = Some("model".to_owned())).into());
    }
    let connection = Connection {
        dialect: granted.model.dialect,
        provider: granted.model.provider,
        model: granted.model.name,
        key: granted.key,
    };
    Ok(Some((connection, granted.row)))
}

/// Those that somebody provides to this caller.
pub fn dialects(call: &Call) -> BTreeSet<Dialect> {
    let available = call.api.fleet.models().available(&call.who.tenant);
    available.into_iter().map(|model| model.dialect).collect()
}

/// What to type to have a model that speaks it.
pub fn how_to_add(dialect: Dialect) -> String {
    let word = dialect.word();
    format!(
        "give it a model: `slipway model add {word}` asks for the key, --key-file FILE reads it from a file"
    )
}
