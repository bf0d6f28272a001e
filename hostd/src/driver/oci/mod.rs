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

mod badge;
mod bring_up;
mod bundle;
mod cgroup;
mod death;
mod dial;
mod driver;
mod end;
mod files;
mod images;
mod init;
mod kernel;
mod layout;
mod limits;
mod measure;
mod mounts;
mod netns;
mod open;
mod owner;
mod probe;
mod ranges;
mod recipe;
mod sealed;
mod seccomp;
mod spawn;
mod syscalls;
mod tree;

pub use driver::Oci;
pub use images::{Images, Listed};
pub use open::{HostImage, OciConfig};
