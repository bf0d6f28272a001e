//! Root file systems: imported ones, and `host`, which consists of the host's own programs. Unpacked once,
//! shared by all sandboxes, never written to again.

mod host_image;
mod import_tree;
mod mount_points;
mod store;

pub use host_image::HostRootfs;
pub use mount_points::RUNTIMED_INSIDE;
pub use store::{HOST, ImageRecord, ImageStore, Rootfs};
