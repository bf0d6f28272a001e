//! `slipway forward`: ports of a sandbox on addresses of this machine. Each local connection is a WebSocket of its own.
//!
//! ```text
//!  browser ──TCP──▶ listener ──▶ relay ──WebSocket──▶ hostd ──TCP──▶ app in the sandbox
//! ```

mod listener;
mod port_spec;
mod relay;

pub use listener::{Forwarded, bind};
pub use port_spec::PortSpec;
