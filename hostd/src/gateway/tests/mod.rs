//! The gateway between a real client and a provider that does as it is told, on loopback.

mod fake_provider;
mod faults;
mod fixture;
mod forwarding;
mod list_models;
mod parse_thread;
pub mod recorder;
mod refusals;
mod retries;
