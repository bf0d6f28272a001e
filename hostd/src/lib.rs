//! hostd, the host agent: manages sandboxes, keeps state in SQLite, answers callers. A library, so that
//! tests can drive its parts; `main.rs` is the program.

pub mod api;
mod boot;
pub mod command;
pub mod config;
pub mod control;
pub mod core;
pub mod driver;
mod identity_files;
pub mod inside;
pub mod launch;
pub mod limits;
pub mod reconcile;
pub mod store;
