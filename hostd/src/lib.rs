//! hostd, the host agent: manages sandboxes, keeps state in SQLite, answers callers. A library, so that
//! tests can drive its parts; `main.rs` is the program.

pub mod agents;
pub mod api;
mod backpressure;
mod boot;
mod clock;
pub mod command;
pub mod config;
mod connections;
pub mod control;
pub mod core;
mod crew;
pub mod disk_room;
pub mod driver;
pub mod edge;
pub mod egress;
pub mod gateway;
mod html;
mod identity_files;
pub mod inside;
pub mod launcher;
pub mod limits;
pub mod links;
mod memory;
pub mod models;
pub mod outside;
pub mod reconcile;
pub mod store;
mod through;
pub mod token_auth;
pub mod traffic;
pub mod upstream;
