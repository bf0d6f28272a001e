//! runtimed: PID 1 of a sandbox. See ARCHITECTURE.md for the map.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

#[cfg(test)]
#[path = "../apart.rs"]
mod apart;
pub mod api;
pub mod boot;
pub mod checkpoint;
pub mod config;
pub mod core;
pub mod files_process;
pub mod fuzz;
pub mod limits;
pub mod log;
pub mod shim;
pub mod supervisor;
pub mod sys;
