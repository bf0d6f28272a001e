//! HTTP on two Unix sockets: one for hostd, one for the sandboxed code. Parses, asks the supervisor,
//! renders. Holds no state of its own.

mod body;
mod control;
mod events;
mod execs;
mod follow;
mod format;
mod inline;
mod programs;
mod public;
mod reply;
pub mod request;
pub mod route;
mod serve;
mod services;
mod stdin;
mod streams;
mod task_events;
mod tasks;
mod terminal;
mod tunnel;
mod warm;

pub use serve::{Served, serve_control, serve_public};
