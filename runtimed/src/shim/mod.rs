//! The shim: one small process between PID 1 and each job.
//!
//! The same binary, uid 0, and a subreaper: every process a job forks stays below it, so the shim can kill
//! the whole tree. It writes the output log and reports to PID 1. It has no async runtime, no sockets but the
//! one to PID 1, and does not outlive PID 1.

mod acp_conversation;
mod child;
mod control;
mod event_writer;
mod exit_status;
mod json_output;
pub mod messages;
mod output_sink;
mod pump;
mod raw_log;
mod run;
mod run_acp;
mod signal_tree;
mod stdin_queue;
mod tail_buffer;

pub use run::main;
