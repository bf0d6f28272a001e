//! Previews: every port of a sandbox under a hostname of its own, woken when a request comes.
//!
//! ```text
//!  browser ──▶ serve ──▶ request ──▶ auth ──▶ wake (asleep? once for all requests) ──▶ forward ──▶ app
//!                │                              │ too slow, or failed                    │ 101
//!                │                              ▼                                        ▼
//!                │                            error_page: what happens, or why not     splice
//!                └── one task per connection; it drives the connection to the app, too
//! ```
//!
//! Trusts nothing that comes from either side; changes no sandbox except by asking its `SandboxActor`.

mod auth;
mod error_page;
mod forward;
pub mod limits;
pub mod metrics;
mod peeked;
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
mod tls;
mod wake;

pub use auth::PreviewAuth;
pub use serve::serve;
pub use state::{Edge, EdgeParts};
pub use tls::Tls;
