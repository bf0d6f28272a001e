//! The HTTP server that hostd runs inside every sandbox, on a loopback port of the sandbox's own network
//! namespace: the status page of the sandbox, the gateway to models, the gateway to git repositories, and the egress proxy.
//!
//! ```text
//!  sandboxed code ──127.0.0.1:900──▶ listener (one per sandbox) ──▶ route ──▶ respond
//! ```
//!
//! **The caller is the sandbox whose listener accepted**, and never anything in the request: nothing here looks
//! up a sandbox by what a request says. A listener belongs to the `SandboxActor` (`reconcile`), which opens it at
//! launch and drops it when the sandbox is gone: its sockets keep the namespace alive.

mod connection_limits;
mod limits;
mod listener;
mod respond;
mod route;
mod status;
mod status_page;

pub use listener::{InsideListener, InsideServer};
pub use status::ServedSandbox;
