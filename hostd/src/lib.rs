//! hostd, the host agent: manages sandboxes, keeps state in SQLite, answers callers. A library, so that
//! tests can drive its parts; `main.rs` is the program.

pub mod api;
mod boot;
pub mod command;
pub mod config;
mod connections;
pub mod control;
pub mod core;
mod crew;
pub mod driver;
pub mod edge;
mod html;
mod identity_files;
pub mod inside;
pub mod launch;
pub mod limits;
pub mod links;
pub mod reconcile;
pub mod store;
mod through;
pub mod tokens;
pub mod traffic;
pub mod upstream;
