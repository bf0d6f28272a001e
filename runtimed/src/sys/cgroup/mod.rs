//! The control group the sandbox runs in: where it is, and what it has counted.
//!
//! Must not: write to it (limits are the host's), guess a number the kernel does not give, or move anybody.

mod location;
mod stats;

pub use location::{ControllerDir, Hierarchy, Location, locate, locate_in};
pub use stats::{Counters, counters, read};
