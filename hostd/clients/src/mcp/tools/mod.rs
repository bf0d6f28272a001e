//! The tools: a file per kind, each tool an argument type with its schema, and a function that calls Slipway's own API.

mod args;
mod exec;
mod files;
mod files_write;
mod logs;
mod previews;
mod registry;
mod result;
mod sandboxes;
mod schema;
mod snapshots;
mod tasks;

pub use exec::exec_result;
pub use files::entry_line;
pub use logs::read as read_log;
pub use registry::{call, visible_to};
pub use result::{Outcome, ToolAnswer, ToolFailure, failed};
pub use sandboxes::sandbox_result;
pub use tasks::task_result;
