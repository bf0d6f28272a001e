//! The embedded driver: no daemon, an OCI bundle run by crun, runc or youki through the command line that
//! they share.
//!
//! ```text
//! <data>/oci/<id>/            badge.json  bundle/  control/  public/  stdio.log  launch.lock  pid
//! <data>/oci/run/<id>/        what the runtime keeps
//! <data>/workspaces/<id>/     the files, /home/sandbox inside
//! <data>/images/<name>/       unpacked once, shared, read-only
//! <data>/trash/               on its way out
//! /sys/fs/cgroup/…/slipway-<instance>/<id>
//!
//!            launch                    died
//!  Absent ──────────▶ Launching ─▶ Running ─────▶ Dead ──clear──▶ Absent
//!                     (lock held)   (PID 1 in      (something
//!                                    our cgroup)    was left)
//! ```
//!
//! **Invariant:** nothing here remembers what is running. Every verb looks: at the lock, at the process,
//! at the control groups. What is cached is checked against the kernel before it is used.
//! **Invariant:** `control/` and the workspace can be written from inside; no path in them is followed.

use super::local::{
    badge, cgroup, dial, ending, files, ground, ids, images, init, layout, limits, measure, owner,
    pid_namespace, request, seccomp, tree, trial, workspace,
};

mod bring_up;
mod bundle;
mod death;
mod driver;
mod end;
mod mounts;
mod open;
mod probe;
mod ranges;
mod recipe;
mod sealed;
mod spawn;

pub use super::local::images::{Images, Listed};
pub use driver::Oci;
pub use open::{HostImage, OciConfig, programs};
