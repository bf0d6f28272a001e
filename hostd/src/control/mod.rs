//! Talking to the runtimed of one sandbox: HTTP/1.1 on its control socket, with a deadline on every head
//! and nothing believed that comes back: sizes are bounded, JSON is parsed into types.

mod client;
mod pool;

pub use client::{Control, ControlError, request};
pub use pool::{Body, ControlPool, Lease};
