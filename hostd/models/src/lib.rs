//! Models: providers, the grants of tasks, and usage. The `gateway` asks here before it forwards a call and
//! reports here how the call went, so the results of tasks are judged by what is recorded here.
//!
//! ```text
//!  submit ──grant──▶ Models ──▶ key, row of the task       runner ──open_grant──▶ the key is valid
//!  agent ──key──▶ gateway ──authenticate──▶ Models ──▶ Grant ──target──▶ provider, model
//!                    │                            └─begin──▶ Call ──retrying, streamed, ended──▶ usage, events
//!                    ◀── a permanent fault or an exceeded budget ends the task: a verdict
//! ```

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

mod budget_accounts;
mod budgets;
mod call;
mod call_types;
mod calls_in_flight;
mod catalogue;
mod error;
pub mod gateway;
mod grant;
mod key_problem;
pub mod limits;
mod providers;
mod rejected_call;
mod request;
mod service;
#[cfg(test)]
mod tests;

pub use call::Call;
pub use call_types::{
    ActiveBudgets, CallParams, CallRefusal, CallReport, CallTarget, Dialect, Fault, Price, Provider,
    ProviderKey, TokenUsage,
};
pub use catalogue::{ConfiguredProvider, ModelAvailability};
pub use error::ModelsError;
pub use gateway::compatible_variant;
pub use grant::{Grant, OpenGrant};
pub use key_problem::KeyProblem;
pub use providers::{ProviderDraft, is_model_name};
pub use rejected_call::RejectedCall;
pub use request::{GrantRequest, NewGrant, bounds_of};
pub use service::Models;
