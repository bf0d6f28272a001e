//! Connects a task to its model, where the agent needs one.

use super::{call::Call, error::CallError, task_agent::ChosenAgent};
use crate::agents::{ModelAccess, model_is_plain};
use hostd_models::{Dialect, GrantRequest, ModelAvailability};
use hostd_store::{SandboxRecord, TaskGrant};
use protocol::api::{ApiError, ApiErrorCode, TaskCreate};
use std::collections::BTreeMap;

/// Grants a task its model: the connection, and the row to persist with the task. `None` for an agent that
/// uses no model of hostd.
pub async fn grant_model(
    call: &Call,
    create: &TaskCreate,
    choice: ChosenAgent<'_>,
    sandbox: &SandboxRecord,
) -> Result<Option<(ModelAccess, TaskGrant)>, CallError> {
    if choice.entry.dialects.is_empty() {
        return match create.budget {
            Some(_) => {
                let message = format!(
                    "the agent {} uses no model of hostd, so a budget cannot be enforced",
                    choice.name
                );
                Err(CallError::invalid("budget", message))
            }
            None => Ok(None),
        };
    }
    let wish = GrantRequest {
        tenant: &sandbox.owner.tenant,
        model: create.model.clone(),
        dialects: &choice.entry.dialects,
        budget: create.budget,
    };
    let granted = call.api.models.grant(wish).await?;
    if !model_is_plain(&granted.model.name) {
        let message =
            format!("agents cannot take the model name {:?}: give the model an alias", granted.model.name);
        let error = ApiError::new(ApiErrorCode::NoModel, message);
        return Err(error.with(|detail| detail.field = Some("model".to_owned())).into());
    }
    let connection = ModelAccess {
        dialect: granted.model.dialect,
        provider: granted.model.provider,
        model: granted.model.name,
        key: granted.key,
    };
    Ok(Some((connection, granted.row)))
}

/// The models that tasks of this caller can use, by dialect.
pub fn reachable_models(call: &Call) -> BTreeMap<Dialect, ModelAvailability> {
    let models = &call.api.models;
    Dialect::ALL
        .into_iter()
        .map(|dialect| (dialect, models.availability(&call.caller.tenant, dialect)))
        .collect()
}

/// Hint for agents without a default model.
pub fn how_to_set_default() -> String {
    "no default model: name one with --model, or give a provider one with `slipway model add NAME --default MODEL`"
        .to_owned()
}

/// Hint for agents without a provider of this dialect.
pub fn how_to_add_provider(dialect: Dialect) -> String {
    let word = dialect.as_str();
    format!(
        "give it a model: `slipway model add {word}` asks for the key, --key-file FILE reads it from a file"
    )
}
