//! The control groups of sandboxes: `slipway-<instance>/<id>` in every hierarchy that matters. Created here
//! and not by the runtime, which is slower.

mod counters;
mod group;
mod hierarchy;

pub use group::Cgroup;
pub use hierarchy::Hierarchies;
