//! One command per file: its arguments and its `run`.
//!
//! To add a command: write `commands/NAME.rs` with `NameArgs` and `run`, declare it here, add a variant with its help
//! to `Command` in `args.rs`, and an arm to the match in `dispatch.rs`. Its tests against a fake hostd go to
//! `cli/tests/`.

pub mod acp;
pub mod agents;
pub mod attach;
pub mod attempts;
pub mod audit;
pub mod backup;
pub mod budget;
pub mod completions;
pub mod context;
pub mod cp;
pub mod create;
pub mod doctor;
pub mod down;
pub mod drivers;
pub mod egress;
pub mod ensure;
pub mod events;
pub mod exec;
pub mod files;
pub mod fork;
pub mod forward;
pub mod get;
pub mod git;
pub mod host;
pub mod image;
pub mod lifecycle;
pub mod limits;
pub mod logs;
pub mod ls;
pub mod man;
pub mod mcp;
pub mod model;
pub mod models;
pub mod ports;
pub mod preview_link;
pub mod ps;
pub mod quota;
pub mod restore;
pub mod rm;
pub mod run;
pub mod secret;
pub mod service;
pub mod services;
pub mod sh;
pub mod share;
pub mod shares;
pub mod snapshot;
pub mod stale;
pub mod sync;
pub mod task;
pub mod tls;
pub mod token;
pub mod top;
pub mod unshare;
pub mod up;
pub mod version;
pub mod webhook;
