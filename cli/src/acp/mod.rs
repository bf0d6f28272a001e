//! `slipway acp`: an editor that starts a command and talks to it, with an agent in a sandbox.
//!
//! ```text
//!  editor ── lines ──▶ link ── WebSocket ──▶ hostd
//!         ◀─────────    │  ◀───────────────
//!                     bridge: what each message means for a connection that may be cut
//! ```

mod bridge;
mod link;
mod messages;

pub use link::Link;
