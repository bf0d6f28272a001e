//! What a task was granted of models, as it is kept with the task. No secret is in it.

use super::BudgetBounds;
use protocol::Dialect;
use serde::{Deserialize, Serialize};

/// The model that a task was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedModel {
    pub dialect: Dialect,
    pub provider: String,
    /// What the agent is told, and asks for.
    pub name: String,
    /// What its provider calls it.
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTerms {
    pub model: GrantedModel,
    #[serde(default)]
    pub bounds: BudgetBounds,
}
