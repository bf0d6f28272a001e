//! A terminal of a sandbox on our own: bytes both ways over a WebSocket. hostd may restart meanwhile: the
//! terminal has an id, what it shows a position.

mod attend;
mod escape;
mod seat;
mod socket;

pub use attend::{From, Viewer};
