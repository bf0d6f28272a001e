//! Types of a model call, shared by the gateway and the budget accounts. None of them prints a key.

use hostd_store::SecretValue;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use protocol::Dialect;

/// The key of a provider, which does not print.
#[derive(Debug, Clone)]
pub struct ProviderKey(pub SecretValue);

#[derive(Debug, Clone)]
pub struct Provider {
    pub name: String,
    pub dialect: Dialect,
    /// Includes the version where the API has one, without a slash at its end: `https://…/v1`.
    pub base_url: String,
    /// `None` for a provider that needs none, such as a local server.
    pub key: Option<ProviderKey>,
}

/// Prices in millionths of a dollar per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// The provider and model that a call goes to.
#[derive(Debug, Clone)]
pub struct CallTarget {
    pub provider: Arc<Provider>,
    /// The provider's name of the model.
    pub model: String,
    pub price: Option<Price>,
}

/// Parameters of a call, known before it is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallParams {
    /// Estimated from the length of the request.
    pub input_tokens: u64,
    /// The output limit that the request sets.
    pub max_output_tokens: Option<u64>,
    pub streams: bool,
    /// The call only counts tokens: its outcome says nothing about the task.
    pub count_only: bool,
}

/// The measures that some budget bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ActiveBudgets {
    /// Tokens are bounded, directly or by their cost.
    pub tokens: bool,
    pub cost: bool,
}

/// Tokens that a call used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    /// Estimated by the gateway, since the provider reported nothing.
    pub estimated: bool,
}

/// A failure of a provider or of the connection to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `None` without an HTTP response.
    pub status: Option<u16>,
    /// A text of the provider or of hostd: without keys, one line, bounded.
    pub message: String,
    /// A retry cannot help: a wrong key, no such model, an exhausted quota.
    pub permanent: bool,
}

/// The gateway's report about a call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReport {
    pub attempt: u32,
    pub status: Option<u16>,
    pub tokens: Option<TokenUsage>,
    pub first_byte_ms: Option<u64>,
    pub outcome: Result<(), Fault>,
    /// The agent disconnected first.
    pub abandoned: bool,
}

/// The reason why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallRefusal {
    #[error("there is no model {model:?} for this task; there are: {}", .available.join(", "))]
    Model { model: String, available: Vec<String> },
    #[error("the key of the provider {provider} cannot be used: {problem}")]
    Key { provider: String, problem: String },
    #[error("{0}")]
    Budget(String),
    #[error("the rest of the budget is reserved for calls in flight; try again when they have ended")]
    Busy,
    #[error("the task is queued; try again when it has begun")]
    Waits,
    #[error("the task has ended")]
    Ended,
}
