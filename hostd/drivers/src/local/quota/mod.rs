//! The disk limit of a workspace (`limits.disk_mb`), by the best means that this host has.
//!
//! ```text
//! project   project quota of ext4 or xfs: the workspace stays a plain directory   writes fail at the limit
//! loop      a volume: an ext4 file system in a file that is allocated whole       writes fail at the limit
//! measured  nothing of the kernel: hostd measures, and stops what is over         within seconds
//! ```
//!
//! **Invariant:** which means holds for a workspace is read from the disk, never remembered: a volume exists, the
//! directory has a project, or neither. A sandbox keeps the means it was made with.

mod choice;
mod loop_device;
mod policy;
mod probe;
mod project;
mod project_ioctl;
mod volume;

pub use choice::{QuotaChoice, QuotaMeans};
pub use policy::{Quota, QuotaSettings};
pub use probe::PROBE_MOUNT;
pub use project::{assign, project_usage, release, tagged_project};
pub use volume::{
    allocate, detach, flush, format, is_mount_point, make_mount_point, mount, unmount, volume_bytes,
};
