//! The model grant of a task, as it is stored in the row of the task. Contains no secret.

use super::BudgetBounds;
use protocol::Dialect;
use serde::{Deserialize, Serialize};

/// The model that a task was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedModel {
    pub dialect: Dialect,
    pub provider: String,
    /// The name that the agent uses.
    pub name: String,
    /// The name that its provider uses.
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTerms {
    pub model: GrantedModel,
    #[serde(default)]
    pub bounds: BudgetBounds,
}
