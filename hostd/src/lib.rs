//! hostd, the host daemon: drives sandboxes, keeps their state in SQLite and serves the API. A library, so
//! that tests can use its parts; `main.rs` is the program.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod agents;
mod allocator;
pub mod api;
mod backpressure;
mod boot;
mod clock;
pub mod command;
pub mod config;
mod connection_threads;
mod connections;
pub mod control;
pub mod core;
mod delegate_write;
pub mod disk_space;
pub mod driver;
pub mod edge;
pub mod egress;
pub mod gateway;
mod html;
mod identity_files;
pub mod inside;
pub mod launcher;
pub mod limits;
pub mod models;
pub mod outbound;
pub mod preview_links;
pub mod reconcile;
pub mod store;
pub mod token_auth;
pub mod traffic;
pub mod upstream;
