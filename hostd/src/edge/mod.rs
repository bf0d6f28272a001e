//! Previews: every port of a sandbox under a hostname of its own, awake when someone looks.
//!
//! ```text
//!  browser ──▶ serve ──▶ visit ──▶ gate ──▶ hold (asleep? wake it, once) ──▶ pass ──▶ line ──▶ app
//!                │                            │ too long, or it failed          │ 101
//!                │                            ▼                                 ▼
//!                │                          page: what happens, or why not    splice
//!                └── one task per connection; the line to the app is driven by the same task
//! ```
//!
//! Trusts nothing that comes from either side; changes no sandbox except by asking its owner.

mod begun;
mod body;
mod excuse;
mod gate;
mod hold;
pub mod limits;
pub mod metrics;
mod page;
mod pass;
mod patience;
mod rouse;
mod serve;
mod splice;
mod state;
#[cfg(test)]
mod tests;
mod tls;
mod visit;
mod wait;
mod wary;

pub use gate::Gate;
pub use serve::serve;
pub use state::{Edge, EdgeParts};
pub use tls::Tls;
