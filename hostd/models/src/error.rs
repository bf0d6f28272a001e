//! Errors of models. Their texts say what to do next and name no path of the host.

use super::KeyProblem;
use hostd_store::{StoreError, vault::VaultError};
use protocol::Dialect;

#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    #[error("{0}")]
    NoModel(String),
    #[error("there is no model {model:?} here; there are: {}", .available.join(", "))]
    Unknown { model: String, available: Vec<String> },
    #[error("more than one provider has {model:?}; say which: {}", .named.join(", "))]
    Ambiguous { model: String, named: Vec<String> },
    #[error("{model:?} speaks {}, and the agent speaks {}", .speaks.as_str(), words(.agent))]
    DialectMismatch { model: String, speaks: Dialect, agent: Vec<Dialect> },
    #[error(
        "a bound of cost needs a price, and {model:?} has none: give it one with `slipway model add … --price`"
    )]
    Unpriced { model: String },
    #[error("{0}")]
    BudgetUsedUp(String),
    #[error("the key of the provider {provider} cannot be used: {source}")]
    Key { provider: String, source: KeyProblem },
    /// The provider was called and refused the key.
    #[error("{provider} {}: {words}", if *.had_key { "does not take this key" } else { "wants a key" })]
    KeyRefused { provider: String, had_key: bool, words: String },
    #[error("could not seal the key: {0}")]
    Seal(#[source] VaultError),
    #[error("could not make a key for the task: {0}")]
    Random(#[source] std::io::Error),
    #[error("{message}")]
    Invalid { field: &'static str, message: String },
    #[error("there are too many {0}; remove some that are not needed")]
    TooMany(&'static str),
    #[error("there is no such thing here")]
    NotFound,
    #[error("could not read which calls were under way: {0}")]
    InFlight(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn words(dialects: &[Dialect]) -> String {
    dialects.iter().map(|dialect| dialect.as_str()).collect::<Vec<_>>().join(" or ")
}

pub(super) fn invalid(field: &'static str, message: impl Into<String>) -> ModelsError {
    ModelsError::Invalid { field, message: message.into() }
}
