//! Connections to the ports of a sandbox: one at a time (`line`), those that are kept (`lines`), and who may
//! use them now (`turns`, `sockets`). Knows HTTP and nothing of previews.

mod line;
mod lines;
mod meter;
mod outgoing;
mod sniff;
mod sockets;
mod turns;

pub use line::{Line, Taken, Unsent};
pub use lines::Lines;
pub use meter::{Hearing, Meter};
pub use outgoing::{BodyError, Outgoing};
pub use sockets::{Place, Sockets};
pub use turns::Turn;
