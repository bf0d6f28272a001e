//! What tasks use of models, as hostd's gateway sees it.

use serde::{Deserialize, Serialize};

/// A family of APIs: what a provider speaks.
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

    /// Also what a provider of this name speaks.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }
}

/// What a task used of its models. Seen at the gateway, not claimed by an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Of the input: read from, and written to, the provider's cache. Not counted again in `input_tokens`.
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Of the output.
    pub reasoning_tokens: u64,
    /// Calls that were passed on, those that were tried again, those that failed in the end.
    pub calls: u64,
    pub retries: u64,
    pub failed_calls: u64,
    /// In millionths of a dollar; absent where a model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Some of the tokens were not told by the provider but reckoned from the length of the text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// One call of a model, or one try of it: a `model` event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ModelCall {
    /// Counts the calls of the task, from 1.
    pub call: u64,
    pub provider: String,
    /// As the provider calls it.
    pub model: String,
    pub state: ModelCallState,
    /// Which try this was, from 1.
    pub attempt: u32,
    /// The provider's status; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's words, or ours where there are none; without any key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long until the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    pub duration_ms: u64,
    /// Until the first byte of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
    /// Of this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelCallState {
    /// It is tried again.
    Retrying,
    #[default]
    Succeeded,
    /// The agent was told the error.
    Failed,
    /// The agent, or its task, went away in the middle.
    Abandoned,
}
