//! A terminal of a sandbox on our own: bytes both ways over a WebSocket. hostd may restart meanwhile: the
//! terminal has an id, what it shows a position.

mod attach;
mod escape;
mod local_terminal;
mod socket;

pub use attach::{StartAt, Viewer};
