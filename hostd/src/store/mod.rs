//! The store: the only owner of `<data>/slipway.db`.
//!
//! ```text
//!  callers ──job──▶ bounded queue ──▶ writer thread: BEGIN, one SAVEPOINT a job, COMMIT, then the answers
//!     │                                                                   └──▶ feed: what was committed
//!     └───read────▶ a few read-only connections
//! ```
//!
//! What was answered is on the disk. Decisions are in `core`: here they are only written down, a change of
//! state and its event in one transaction. **Invariant:** no value of a sandbox's environment is in an
//! event, an attempt or a log line.

mod attempts;
mod audits;
mod egress;
mod error;
mod events;
mod exec_ends;
mod execs;
pub mod failpoint;
mod feed;
mod handle;
mod idempotency;
mod in_place;
mod journal;
pub mod limits;
mod links;
mod log;
mod model_budgets;
mod model_calls;
mod model_providers;
mod moves;
mod open;
mod query;
mod reader;
mod records;
mod repair;
mod row;
mod sandbox_row;
mod sandboxes;
mod schema;
mod scrub;
mod task_events;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;
mod tidy;
mod tokens;
mod writer;

pub use egress::EgressFact;
pub use error::{OpenError, StoreError};
pub use events::EventFilter;
pub use execs::{Begun, ExecEnd};
pub use feed::{Following, Topic};
pub use handle::{Posted, Store};
pub use idempotency::{Claim, Key};
pub use links::LinkMade;
pub use log::{Batch, LogPart, data_of};
pub use model_budgets::period;
pub use model_calls::CallEnd;
pub use moves::Change;
pub use records::{
    AttemptRecord, AuditRecord, BudgetRecord, EventRecord, ExecRecord, FoundTask, LinkRecord, NewSandbox,
    NewTask, ProviderRecord, SandboxRecord, Secret, TaskGrant, TaskRecord, TokenRecord,
};
pub use repair::{Repaired, repair};
pub use sandboxes::SandboxFilter;
pub use tasks::TaskBegun;
pub use tidy::Tidied;
