//! Paths of our mounts in a container.

use super::images::RUNTIMED_INSIDE;

pub const CONTROL: &str = "/run/runtimed";
pub const PUBLIC: &str = "/run/slipway";
pub const HOME: &str = "/home/sandbox";
pub const TMP: &str = "/tmp";
pub const VAR_TMP: &str = "/var/tmp";
/// All our mounts, except those that an image consists of.
pub const OUR_MOUNTS: [&str; 6] = [RUNTIMED_INSIDE, CONTROL, PUBLIC, HOME, TMP, VAR_TMP];
/// The tmpfs mounts among them.
pub const TMPFS_MOUNTS: [&str; 2] = [TMP, VAR_TMP];

/// Whether one path is strictly below another.
pub fn is_below(path: &str, of: &str) -> bool {
    of == "/" && path != "/" || path.strip_prefix(of).is_some_and(|rest| rest.starts_with('/'))
}
