//! Decisions. No IO, no clock, no `await`: values in, values out, time is an argument.

pub mod activity;
pub mod agent;
pub mod budget;
pub mod graph;
pub mod job;
pub mod manifest;
pub mod rate;
pub mod request;
pub mod service;
pub mod shutdown;
pub mod task;
pub mod watch;
