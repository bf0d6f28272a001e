//! Model use of tasks, as measured by hostd's gateway.

use serde::{Deserialize, Serialize};

/// Model API that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    Anthropic,
    Openai,
    Gemini,
}

impl Dialect {
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::Openai, Self::Gemini];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the dialect of this name; a provider of the same name speaks it by default.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }
}

/// Model use of a task. Measured at the gateway, not reported by the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache, and written to it; not included in `input_tokens`.
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Part of `output_tokens`.
    pub reasoning_tokens: u64,
    /// Calls that were forwarded.
    pub calls: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Calls that failed after all retries.
    pub failed_calls: u64,
    /// Cost in millionths of a dollar; absent where a model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Whether some tokens were estimated from the length of the text, because the provider did not report them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// A model call, or one attempt of it: a `model` event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ModelCall {
    /// Number of the call within the task, from 1.
    pub call: u64,
    pub provider: String,
    /// Name of the model at the provider.
    pub model: String,
    pub state: ModelCallState,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// HTTP status of the provider; absent where there was no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Error message of the provider, or of hostd where there is none; never contains a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time until the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    pub duration_ms: u64,
    /// Time until the first byte of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
    /// Model use of this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelCallState {
    /// The attempt failed and will be retried.
    Retrying,
    #[default]
    Succeeded,
    /// The call failed; the agent got the error.
    Failed,
    /// The agent, or its task, ended during the call.
    Abandoned,
}
