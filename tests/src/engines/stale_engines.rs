//! Engines of tests that were killed: found by their directories, and taken away before the next is started.

use super::cleanup;
use crate::stale_directories;
use std::path::Path;
use std::sync::Once;

/// Not in /tmp: where that is a tmpfs, there are no overlays on it.
pub const PLACE: &str = "/var/tmp";
pub const PREFIX: &str = "slipway-engine-";

pub fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        stale_directories::sweep(Path::new(PLACE), PREFIX, |dir| {
            cleanup::kill_all(dir);
            cleanup::clear(dir);
        });
    });
}
