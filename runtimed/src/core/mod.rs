//! Decisions. No IO, no clock, no `await`: values in, values out, time is an argument.

pub mod acp;
pub mod activity;
pub mod agent;
pub mod agent_request;
pub mod budget;
pub mod graph;
pub mod job;
pub mod manifest;
pub mod rate;
mod read;
pub mod request;
pub mod service;
pub mod shutdown;
pub mod stream_json;
pub mod task;
pub mod tool;
pub mod voice;
pub mod watch;
pub mod way_out;
