//! Client of the runtimed of one sandbox: HTTP/1.1 on its control socket, with a deadline on every response
//! head. Responses are untrusted: sizes are bounded, JSON is parsed into types.

mod client;
mod files;
mod pool;

pub use client::{Control, ControlError, request};
pub use files::{FilesConnection, FilesConnectionError};
pub use pool::{Body, ControlPool, Lease};
