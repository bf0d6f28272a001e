//! The gateway between a real client and a scripted provider, on loopback.

mod fake_provider;
mod faults;
mod fixture;
mod forwarding;
mod list_models;
mod parse_thread;
mod recorder;
mod refusals;
mod retries;
