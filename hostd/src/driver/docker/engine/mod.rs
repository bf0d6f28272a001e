//! The Engine API of Docker, which Podman speaks too, over its Unix socket. Knows nothing of sandboxes.
//!
//! **Invariant:** every question has a deadline, and every answer a largest size. "Already so" and "already
//! gone" are answers, not errors.

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
