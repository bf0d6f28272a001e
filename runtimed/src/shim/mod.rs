//! The shim: one small process between PID 1 and each job.
//!
//! It is the same binary, uid 0, and a subreaper: whatever a job forks stays below it, so it can kill the
//! whole tree. It writes the output log and tells PID 1 what it saw. It has no async machinery, no
//! sockets but the one to PID 1, and does not outlive PID 1.

mod child;
mod control;
mod ending;
mod json_talk;
mod lines;
mod outbox;
mod pump;
mod raw;
mod run;
mod sink;
mod tail;
mod talk;
mod talking;
mod tree;
pub mod wire;

pub use run::main;
