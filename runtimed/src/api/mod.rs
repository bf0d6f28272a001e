//! HTTP on two Unix sockets: one for hostd, one for the sandboxed code. Parses requests, sends commands to
//! the supervisor, renders responses. Holds no state of its own.

mod control;
mod events;
mod execs;
mod files;
mod follow_log;
mod inline_output;
mod lingering_stream;
mod programs;
mod public;
mod query;
pub mod request_body;
mod response;
mod response_body;
pub mod route;
mod serve;
mod services;
mod stdin;
mod stream_format;
mod task_events;
mod tasks;
mod terminal;
mod tunnel;
mod upgrade;
mod warm_agent;

pub use serve::{AcceptEnded, serve_control, serve_public};
