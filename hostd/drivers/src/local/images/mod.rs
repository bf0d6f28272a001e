//! Root file systems: imported ones, and `host`, which consists of the host's own programs. Unpacked once,
//! shared by all sandboxes, never written to again.

mod copy_tree;
mod host_image;
mod mount_points;
mod pack_tar;
mod store;
mod unpack_tar;
mod zstd;

pub use copy_tree::copy_tree_within;
pub use host_image::HostRootfs;
pub use mount_points::RUNTIMED_INSIDE;
pub use pack_tar::pack_tar;
pub use store::{HOST, ImageRecord, ImageStore, Rootfs};
pub use unpack_tar::{TreeQuota, unpack_archive_within};
