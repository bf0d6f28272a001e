//! E2B: the sandboxes of its control plane, and the processes, files and code inside them.
//!
//! ```text
//!  X-API-KEY, api.<domain> ──▶ control: create, list, pause, connect, snapshots, …
//!  X-Access-Token, <port>-<id>.<domain> ──▶ envd: processes, files, PTYs
//!                                       └─▶ interpreter: code
//!                     record: what E2B knows of a sandbox and Slipway does not
//! ```

mod connect;
mod control;
mod envd;
mod envd_token;
mod interpreter;
mod record;
pub mod traffic_token;

pub use control::serve;
pub use envd::{EnvdState, serve as serve_sandbox};
