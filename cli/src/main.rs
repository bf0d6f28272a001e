//! The `slipway` command: what people and scripts use to talk to hostd.

mod activity;
mod age;
mod args;
mod client;
mod commands;
mod completion;
mod context;
mod doctor;
mod ending;
mod exit;
mod failure;
mod feed;
mod follow;
mod launch;
mod limits;
mod output;
mod parse;
mod patience;
mod printer;
mod progress;
mod resolve;
mod run;
mod run_box;
mod secret;
mod session;
mod settle;
mod signals;
mod spec;
mod stdin;
mod table;
mod task;
mod task_ready;
mod terminal;
mod text;
mod viewer;
mod winsize;
mod wire;

use protocol::sanitize;

fn main() {
    if let Some(code) = completion::answer() {
        std::process::exit(code.into());
    }
    let args = <args::Args as clap::Parser>::parse();
    // Not by returning: a thread may be reading standard input, and nobody waits for it.
    std::process::exit(run::run(args).into());
}
