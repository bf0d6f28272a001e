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
    blueprint_checks, cgroup, chown_tree, disk_usage, files, host_checks, id_map, images, init, init_exit,
    layout, limits, pid_namespace, probe_sandbox, remove_tree, sandbox_dialer, seccomp, signed_badge,
    workspace,
};

mod bundle;
mod destroy;
mod driver;
mod freeze;
mod inspect;
mod launch;
mod mounts;
mod open_driver;
mod probe;
mod runtime_profile;
mod sealed_program;
mod spawn_runtime;
mod terminate;
mod uid_ranges;

pub use super::local::images::{ImageRecord, ImageStore};
pub use driver::Oci;
pub use open_driver::{HostImage, OciConfig, programs};
