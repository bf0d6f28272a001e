//! `slipway sync`: keeps a directory of this machine and one of a sandbox the same.
//!
//! ```text
//!  local scan ──┐                        ┌──▶ apply ──▶ both sides
//!  remote list ─┼──▶ plan ──▶ steps ─────┤
//!  base (state) ┘                        └──▶ base: what is the same now
//!        ▲ inotify here, the watch stream there: something changed, so again
//! ```

mod apply;
mod conflict_name;
mod ignore_rules;
mod local_tree;
mod local_watch;
mod plan;
mod remote_tree;
mod remote_watch;
mod report;
mod session;
mod state;
mod tree;

pub use session::{Session, SyncOptions};
