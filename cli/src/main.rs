//! The `slipway` command: the client of hostd for people and scripts.
//!
//! To add a command: see `commands/mod.rs`. To add a flag of a sandbox: `sandbox_flags.rs`; of a task: `task/flags.rs`.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

mod acp;
mod activity;
mod args;
mod client;
mod commands;
mod completion;
mod connection;
mod context;
mod contexts;
mod copy;
mod dispatch;
mod doctor;
mod event_stream;
mod exec_outcome;
mod exec_session;
mod exit_code;
mod failure;
mod files;
mod forward;
mod humanize;
mod limits;
mod mcp;
mod output;
mod output_stream;
mod printer;
mod progress;
mod resolve;
mod retry;
mod run_sandbox;
mod sandbox_flags;
mod sandbox_wait;
mod secret;
mod self_signed;
mod signals;
mod sse_body;
mod start_hostd;
mod stdin;
mod sync;
mod table;
mod task;
mod terminal;
mod text;
mod value_parser;
mod viewer;
mod websocket;
mod winsize;

use protocol::sanitize;

fn main() {
    if let Some(code) = completion::run_if_requested() {
        std::process::exit(code.into());
    }
    let args = <args::Args as clap::Parser>::parse();
    // Not by returning from main: a thread may block in a read of standard input.
    std::process::exit(dispatch::run(args).into());
}
