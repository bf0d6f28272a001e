//! Previews: every port of a sandbox under a hostname of its own, woken when a request comes. Also the connections into
//! a sandbox (`upstream`) and the proxy that is its way out (`egress`).
//!
//! ```text
//!  browser ──▶ serve ──▶ request ──▶ auth ──▶ wake (asleep? once for all requests) ──▶ forward ──▶ app
//!                │                              │ too slow, or failed                    │ 101
//!                │                              ▼                                        ▼
//!                │                            error_page: what happens, or why not     splice
//!                └── one task per connection; it drives the connection to the app, too
//! ```
//!
//! Trusts nothing that comes from either side; changes no sandbox except by asking its `SandboxActor`
//! through a `Waker`.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

mod app_connection;
mod auth;
mod client_hosts;
pub mod connection_quotas;
mod delegate_write;
pub mod egress;
mod error_page;
mod forward;
pub mod html;
pub mod limits;
mod metrics;
mod peeked;
pub mod preview_links;
mod preview_target;
mod preview_targets;
mod progress_stream;
mod request;
mod response_body;
mod response_timeout;
mod serve;
mod smuggling_guard;
mod splice;
mod state;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod upstream;
mod wake;
mod waker;

pub use app_connection::{AppActivity, AppConnection, DialError};
pub use auth::PreviewAuth;
pub use client_hosts::ClientHosts;
pub use metrics::EdgeMetrics;
pub use preview_target::{PreviewTarget, RequestPermit, WaitPermit};
pub use preview_targets::PreviewTargets;
pub use serve::serve;
pub use state::{Edge, EdgeParts};
pub use waker::{WakeError, Waker};
