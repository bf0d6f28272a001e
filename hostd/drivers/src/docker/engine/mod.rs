//! A client for the Docker Engine API, which Podman implements too, over a Unix socket. Knows nothing of
//! sandboxes.
//!
//! **Invariant:** every request has a deadline and every response a size limit. "Already in that state" and
//! "already gone" are results, not errors.

mod client;
mod containers;
mod error;
mod error_response;
mod events;
#[cfg(test)]
pub mod fake_engine;
mod images;
mod limits;
mod line_reader;
mod logs;
mod networks;
mod pull_progress;
mod request_path;
#[cfg(test)]
mod tests;
mod types;
mod version;

pub use client::{Engine, Tar};
pub use error::EngineError;
pub use events::Events;
pub use types::*;
