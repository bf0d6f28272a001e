//! Decisions of runtimed. No IO, no clock, no `await`: values in, values out, time is an argument.

pub mod acp;
pub mod activity;
pub mod agent;
pub mod agent_validation;
pub mod job;
mod json_fields;
pub mod line_joiner;
pub mod log_retention;
pub mod manifest;
pub mod proxy_env;
pub mod rate_limit;
pub mod service;
pub mod service_graph;
pub mod shutdown;
pub mod stream_json;
pub mod task;
pub mod tool_limits;
pub mod validation;
pub mod watch_targets;
