//! What hostd itself offers inside every sandbox, on a loopback port of the sandbox's own network
//! namespace: a page about the sandbox, the gateway to models, and the way out.
//!
//! ```text
//!  sandboxed code ──127.0.0.1:900──▶ door (one per sandbox) ──▶ route ──▶ answer
//! ```
//!
//! **Who calls is which door accepted**, and never anything in the request: nothing in context looks up a
//! sandbox by what a caller says. A door belongs to the owner of its sandbox (`reconcile`), who opens it on
//! the way up and drops it when the sandbox is gone: its sockets keep the namespace alive.

mod connection_limits;
mod limits;
mod listener;
mod respond;
mod route;
mod status;
mod status_page;

pub use listener::{InsideListener, InsideServer};
pub use status::ServedSandbox;
