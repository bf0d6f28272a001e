//! The control group the sandbox runs in: where it is, and what it has counted.
//!
//! Must not: write to it (limits are the host's), guess a number the kernel does not give, or move anybody.

mod location;
mod numbers;

pub use location::{Hierarchy, Location, Place, locate, locate_in};
pub use numbers::{Counters, counters, read};
