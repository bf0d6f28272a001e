//! Root file systems: imported ones, and `host`, which is made of the host's own programs. Unpacked
//! once, shared by all sandboxes, never written to again.

mod copy;
mod host;
mod pack;
mod points;
mod store;
mod unpack;
mod zstd;

pub use host::HostRoot;
pub use pack::pack;
pub use points::RUNTIMED_INSIDE;
pub use store::{HOST, Images, Listed, Rootfs};
