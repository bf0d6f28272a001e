//! The embedded driver: no daemon, an OCI bundle run by crun, runc or youki through the command line that
//! they share.
//!
//! ```text
//! <data>/oci/<id>/            badge.json  bundle/  control/  public/  stdio.log  launch.lock  pid
//! <data>/oci/run/<id>/        state of the runtime
//! <data>/workspaces/<id>/     the files, /home/sandbox inside
//! <data>/volumes/<id>.ext4    the same, where a volume limits them: mounted there
//! <data>/images/              unpacked once, shared, read-only (local/images/mod.rs)
//! <data>/trash/               being removed
//! /sys/fs/cgroup/…/slipway-<instance>/<id>
//!
//!            launch                    exit
//!  Absent ──────────▶ Launching ─▶ Running ─────▶ Dead ──clear──▶ Absent
//!                     (lock held)   (PID 1 in      (leftovers
//!                                    our cgroup)    exist)
//! ```
//!
//! **Invariant:** nothing here remembers what is running. Every verb inspects the lock, the process and the
//! control groups; caches are checked against the kernel before use.
//! **Invariant:** the sandbox can write to `control/` and the workspace; no path in them is followed.

use super::local::{
    blueprint_checks, cgroup, chown_tree, files, host_checks, id_map, images, init, init_exit, layout,
    leftovers as local_leftovers, limits, local_driver, pid_namespace, probe_sandbox, quota, remove_tree,
    sandbox_dialer, seccomp, seed, signed_badge,
};

mod bundle;
mod destroy;
mod driver;
mod freeze;
mod inspect;
mod launch;
mod leftovers;
mod mounts;
mod open_driver;
mod probe;
mod resize;
mod runtime_profile;
mod sealed_program;
mod spawn_runtime;
mod terminate;
mod uid_ranges;

pub use driver::Oci;
pub use open_driver::{HostImage, OciConfig, PullSettings, programs};
