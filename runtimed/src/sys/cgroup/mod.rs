//! The control group of the sandbox: its directories and its counters.
//!
//! Must not: write to it (limits are the host's), guess a value the kernel does not report, or move
//! processes.

mod location;
mod stats;

pub use location::{ControllerDir, Hierarchy, Location, locate, locate_in};
pub use stats::{Counters, counters, read};
