//! The shim: one small process between PID 1 and each job.
//!
//! It is the same binary, uid 0, and a subreaper: whatever a job forks stays below it, so it can kill the
//! whole tree. It writes the output log and tells PID 1 what it saw. It has no async machinery, no
//! sockets but the one to PID 1, and does not outlive PID 1.

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
