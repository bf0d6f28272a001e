//! The words that the gateway and the ledger have in common. Nothing here shows a key.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

pub use protocol::Dialect;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelApi {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's generateContent.
    Generate,
}

impl ModelApi {
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Messages => Dialect::Anthropic,
            Self::Chat | Self::Responses => Dialect::Openai,
            Self::Generate => Dialect::Gemini,
        }
    }
}

/// A credential. Neither `Debug` nor anything else prints it.
#[derive(Clone)]
pub struct ProviderKey(pub String);

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderKey")
    }
}

#[derive(Debug, Clone)]
pub struct Provider {
    pub name: String,
    pub dialect: Dialect,
    /// With the version where the API has one, without a slash at its end: `https://…/v1`.
    pub base_url: String,
    /// None for one that wants none, a local server for example.
    pub key: Option<ProviderKey>,
}

/// In millionths of a dollar for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// Where a call goes.
#[derive(Debug, Clone)]
pub struct CallTarget {
    pub provider: Arc<Provider>,
    /// As the provider calls it.
    pub model: String,
    pub price: Option<Price>,
}

/// What is known of a call before it is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallParams {
    /// Reckoned from the length of the request.
    pub input_tokens: u64,
    /// The most it may answer, where it says so.
    pub max_output_tokens: Option<u64>,
    pub streams: bool,
    /// It makes nothing: how it goes says nothing about the task.
    pub count_only: bool,
}

/// What of a call is bounded by some budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ActiveBudgets {
    /// Tokens, by themselves or by what they cost.
    pub tokens: bool,
    pub cost: bool,
}

/// What a call used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    /// Reckoned by us, since the provider did not tell.
    pub estimated: bool,
}

/// What went wrong between us and a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// None where there was no answer.
    pub status: Option<u16>,
    /// The provider's words, or ours; scrubbed, one line, bounded.
    pub message: String,
    /// Another try cannot help: a wrong key, no such model, a quota that is used up.
    pub permanent: bool,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReport {
    pub attempt: u32,
    pub status: Option<u16>,
    pub tokens: Option<TokenUsage>,
    pub first_byte_ms: Option<u64>,
    pub outcome: Result<(), Fault>,
    /// The agent went away first.
    pub abandoned: bool,
}

/// Why a call is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallRefusal {
    #[error("there is no model {model:?} for this task; there are: {}", .available.join(", "))]
    Model { model: String, available: Vec<String> },
    #[error("{0}")]
    Budget(String),
    #[error("what is left of the budget is set aside for calls under way; try again when they have ended")]
    Busy,
    #[error("the task waits for its turn; try again when it has begun")]
    Waits,
    #[error("the task has ended")]
    Ended,
}
