//! Tasks in the command: flags, submit, follow, rendering, permissions, exit code.

mod changes;
mod describe;
mod diff;
mod exit_code;
mod flags;
mod follow;
mod model_usage;
mod parse_event;
mod permission;
mod permission_prompt;
mod preflight;
mod print_events;
mod prompt;
mod render;
mod revert;
mod screen;
mod style;
mod submit;
mod summary;
#[cfg(test)]
pub mod tests;
mod tool;

pub use changes::{DiffArgs, diff};
pub use describe::{describe, table};
pub use exit_code::{CANCELLED, exit_code};
pub use flags::{TaskFlags, task_id};
pub use follow::{FollowEnd, OnInterrupt, follow};
pub use permission_prompt::answer_permission;
pub use preflight::preflight;
pub use prompt::prompt;
pub use revert::{RevertArgs, revert};
pub use screen::style;
pub use submit::{TaskRef, cancel, fetch, submit};
