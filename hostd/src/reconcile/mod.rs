//! Keeps sandboxes as their tenants want them. One task per sandbox, its *actor*, drives it: it alone performs
//! steps, one at a time, in the order they were asked for.
//!
//! ```text
//!  api ──SandboxCommand──▶ fleet ──▶ actor (one per sandbox) ──▶ core::plan ──▶ steps ──▶ driver
//!                            ▲          │ intent before, facts after           ◀── death ──┘
//!                            └─ watch ──┴──▶ store
//!                                     runner (one per task without an end) ──▶ runtimed, by control
//! ```

mod actor;
mod adopt;
mod adopt_tasks;
mod agent_program;
mod backend_outage;
mod backup;
mod cause;
mod commands;
mod connections;
mod disk_limits;
mod disk_pressure;
mod driver_problem;
mod error;
mod event_follower;
mod event_recovery;
mod fleet;
mod idle;
mod inspection;
mod kept_workspace;
mod launch;
mod launch_progress;
mod limits_change;
mod memory_pressure;
mod metrics;
mod perform;
mod provision;
mod provision_dotfiles;
mod provision_exec;
mod provision_source;
mod quota_watch;
mod reap;
mod record_publisher;
mod runtime_logs;
mod sandbox_command;
mod snapshot_content;
mod snapshot_restore;
mod snapshot_room;
mod snapshots;
mod sse_parser;
mod task_changes;
mod task_follower;
mod task_queue;
mod task_runner;
#[cfg(test)]
pub(crate) mod tests;
mod timing;
mod wake;

pub use agent_program::locate_agent;
pub use error::FleetError;
pub use fleet::{Fleet, FleetParts};
pub use sandbox_command::SandboxCommand;
pub use snapshot_room::SnapshotRoom;
pub use task_changes::read_document;
pub use timing::Timing;
