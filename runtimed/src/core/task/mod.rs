//! The lifecycle of one task, as PID 1 decides it. Knows nothing of processes, files or clocks.
//!
//! ```text
//!  Queued ─▶ Preparing ─▶ Checkpoint ─▶ Agent ─▶ Changes ─▶ Build ─▶ Health ─▶ Done
//!    │           │            │           │         │         │        │         ▲
//!    └───────────┴────────────┴───────────┴─────────┴─────────┴────────┴─────────┘
//!      cancel, deadline, end of the sandbox: the running job is stopped first, within a bound
//! ```
//!
//! `Changes` counts the changed files and is seen from outside as the end of `agent`. `Done` is entered
//! exactly once and nothing follows it.

mod input_effect;
mod machine;
#[cfg(test)]
mod tests;

pub use input_effect::{AgentEnd, Effect, Input, Outcome, Policy, Stage};
pub use machine::Machine;
