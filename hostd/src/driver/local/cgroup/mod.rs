//! The control groups of sandboxes: `slipway-<instance>/<id>` in every hierarchy that matters. They are
//! made here, not by the runtime: it knows too little about speed.

mod counters;
mod group;
mod hierarchy;

pub use group::Cgroup;
pub use hierarchy::Hierarchies;
