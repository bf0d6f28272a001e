//! The harness of the end-to-end tests: a real runtimed as PID 1 of real namespaces, and a client for it.
//!
//! The programs are those in the directory named by `SLIPWAY_PROGRAMS`. Everything here needs root.

pub mod acp;
pub mod agents;
pub mod apps;
pub mod browser;
pub mod certificate;
pub mod client;
pub mod collector;
pub mod control_group;
pub mod engines;
pub mod escape;
pub mod events;
pub mod expect_error;
pub mod frames;
pub mod git_repository;
pub mod git_server;
pub mod host;
pub mod https;
pub mod images;
pub mod input;
pub mod launch;
pub mod model;
pub mod output;
pub mod packages;
pub mod processes;
pub mod programs;
pub mod prometheus;
pub mod pty;
pub mod random;
pub mod raw_http;
pub mod raw_http2;
pub mod raw_output;
pub mod sandbox;
pub mod scale;
pub mod seq;
pub mod services;
pub mod shell;
pub mod small_disk;
pub mod ssh_server;
mod stale_directories;
pub mod stock_clients;
pub mod tasks;
pub mod tcp_switch;
pub mod tls_terminator;
pub mod tunnel;
pub mod viewer;
pub mod webhook_receiver;

pub use browser::Browser;
pub use client::{Client, ClientReply};
pub use host::{
    Caller, Feed, FlakyViewer, Hostd, Job, Reply, TaskFeed, TcpViewer, complete, lines, messages, shell,
};
pub use input::{send_input, type_in};
pub use output::{Followed, follow};
pub use random::Random;
pub use sandbox::Sandbox;
pub use scale::scaled;
pub use seq::seq;
pub use services::Services;
