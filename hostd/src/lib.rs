//! hostd, the host daemon: drives sandboxes, keeps their state in SQLite and serves the API. A library, so
//! that tests can use its parts; `main.rs` is the program.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod agents;
mod allocator;
pub mod api;
pub mod backup;
mod boot;
pub mod command;
pub mod config;
pub mod git;
mod inside;
pub mod reconcile;
mod webhooks;
