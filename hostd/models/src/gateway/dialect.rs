//! The dialects of model APIs that agents speak. Pure. All that differs between them is in the files below
//! this one; the rest of hostd asks here and does not look at which dialect it is.
//!
//! ```text
//!  Dialect  ──rules()──▶ DialectRules   paths, key, errors, lists of models
//!     │ has
//!  ModelApi ──rules()──▶ ApiRules       requests and responses
//! ```
//!
//! A further dialect is a variant of `protocol::Dialect`, a file here that implements both traits, and its
//! rows in the tables below; `agents.toml` says which agents speak it.

mod anthropic_messages;
mod error_body;
mod gemini_generate;
mod openai;
mod openai_chat;
mod openai_responses;
mod response_facts;
mod rules;

pub use error_body::{error_response, json_response};
pub use response_facts::ResponseFacts;
pub use rules::{ApiRules, DialectRules, Forwarded, KeyHeader, ModelListFormat};

use crate::Dialect;

/// The API of a model provider that a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub fn rules(self) -> &'static dyn ApiRules {
        match self {
            Self::Messages => &anthropic_messages::Messages,
            Self::Chat => &openai_chat::Chat,
            Self::Responses => &openai_responses::Responses,
            Self::Generate => &gemini_generate::Generate,
        }
    }

    pub fn dialect(self) -> Dialect {
        self.rules().dialect()
    }
}

pub fn rules(dialect: Dialect) -> &'static dyn DialectRules {
    match dialect {
        Dialect::Anthropic => &anthropic_messages::Anthropic,
        Dialect::Openai => &openai::Openai,
        Dialect::Gemini => &gemini_generate::Gemini,
    }
}

pub fn all_rules() -> impl Iterator<Item = &'static dyn DialectRules> {
    Dialect::ALL.into_iter().map(rules)
}

/// The base URL of the vendor of a dialect.
pub fn default_base_url(dialect: Dialect) -> &'static str {
    rules(dialect).default_base_url()
}

/// The key of `env_for` in the definition of an agent for servers of this dialect other than the vendor's own;
/// none where these offer the same APIs.
pub fn compatible_variant(dialect: Dialect) -> Option<&'static str> {
    rules(dialect).compatible_variant()
}
