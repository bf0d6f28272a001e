//! Where everything of ours is in a container.

use super::super::local::images::RUNTIMED_INSIDE;

pub const CONTROL: &str = "/run/runtimed";
pub const PUBLIC: &str = "/run/slipway";
pub const HOME: &str = "/home/sandbox";
pub const TMP: &str = "/tmp";
pub const VAR_TMP: &str = "/var/tmp";
/// Everything that we mount, but for what an image is made of.
pub const OUR_MOUNTS: [&str; 6] = [RUNTIMED_INSIDE, CONTROL, PUBLIC, HOME, TMP, VAR_TMP];
/// Of these, what is only in memory.
pub const TMPFS_MOUNTS: [&str; 2] = [TMP, VAR_TMP];

/// Whether one place is inside another.
pub fn is_below(path: &str, of: &str) -> bool {
    of == "/" && path != "/" || path.strip_prefix(of).is_some_and(|rest| rest.starts_with('/'))
}
