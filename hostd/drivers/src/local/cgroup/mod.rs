//! The control groups of sandboxes: `slipway-<instance>/<id>` in every hierarchy that matters. Created here
//! and not by the runtime, which is slower.

mod counters;
mod group;
mod hierarchy;
mod memory_limit;
mod resize;

pub use group::Cgroup;
pub use hierarchy::Hierarchies;
pub use memory_limit::LimitedGroup;
pub use resize::ResizeError;
