//! Viewer of a sandbox terminal over a WebSocket. It survives restarts of hostd, because the terminal has an id and its
//! output a position.

mod attach;
mod escape;
mod local_terminal;

pub use attach::{StartAt, Viewer};
