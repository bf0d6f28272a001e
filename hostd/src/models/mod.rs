//! Models: who provides them, which task may use which of them, and what it used. The gateway asks here before
//! it passes a call on, and tells here how it went; so this is what results are judged by.
//!
//! ```text
//!  submit ──wish──▶ Models ──▶ key, row of the task       runner ──open──▶ the key is good
//!  agent ──key──▶ gateway ──claim──▶ Models ──▶ Grant ──aim──▶ provider, model
//!                    │                            └─begin──▶ Call ──retrying, streamed, ended──▶ ledger, events
//!                    ◀── what is refused for good, or costs too much, ends the task: a verdict
//! ```

mod budget_accounts;
mod budgets;
mod call;
mod call_types;
mod calls_in_flight;
mod catalogue;
mod error;
mod grant;
mod key_encryption;
pub mod limits;
mod providers;
mod rejected_call;
mod request;
mod service;
#[cfg(test)]
mod tests;

pub use call::Call;
pub use call_types::{
    ActiveBudgets, CallParams, CallRefusal, CallReport, CallTarget, Dialect, Fault, ModelApi, Price,
    Provider, ProviderKey, TokenUsage,
};
pub use catalogue::{ConfiguredProvider, ModelAvailability};
pub use error::ModelsError;
pub use grant::{Grant, OpenGrant};
pub use key_encryption::KeyEncryptionError;
pub use providers::{ProviderDraft, is_model_name};
pub use rejected_call::RejectedCall;
pub use request::{GrantRequest, NewGrant, bounds_of};
pub use service::Models;
