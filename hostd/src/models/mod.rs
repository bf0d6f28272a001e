//! Models: who provides them, which task may use which of them, and what it used. The gateway asks here before
//! it passes a call on, and tells here how it went; so this is what results are judged by.
//!
//! ```text
//!  submit ──wish──▶ Models ──▶ key, row of the task       runner ──open──▶ the key is good
//!  agent ──key──▶ gateway ──claim──▶ Models ──▶ Grant ──aim──▶ provider, model
//!                    │                            └─begin──▶ Call ──retrying, streamed, ended──▶ ledger, events
//!                    ◀── what is refused for good, or costs too much, ends the task: a verdict
//! ```

mod accounts;
mod budgets;
mod call;
mod catalogue;
mod desk;
mod error;
mod grant;
pub mod limits;
mod providers;
mod seal;
#[cfg(test)]
mod tests;
mod turned_away;
mod under_way;
mod wish;
mod words;

pub use call::Call;
pub use catalogue::{Known, Reach};
pub use desk::Models;
pub use error::ModelsError;
pub use grant::{Grant, OpenGrant};
pub use providers::{Draft, is_model_name};
pub use seal::SealError;
pub use turned_away::TurnedAway;
pub use wish::{GrantWish, Granted, bounds_of};
pub use words::{
    Aim, Ask, Bounded, Dialect, End, Fault, Price, Provider, ProviderKey, Refused, Speech, Tokens,
};
