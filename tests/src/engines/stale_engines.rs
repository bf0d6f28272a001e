//! Engines of tests that were killed: found by their directories, and taken away before the next is started.

use super::cleanup;
use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::path::Path;
use std::sync::Once;

/// Not in /tmp: where that is a tmpfs, there are no overlays on it.
pub const PLACE: &str = "/var/tmp";
pub const PREFIX: &str = "slipway-engine-";
const LOCK: &str = "lock";

/// Locks the directory. The lock is free once the process of its owner is gone.
pub fn claim(dir: &Path) -> Result<Flock<File>> {
    let begun = dir.join("lock.new");
    let file = File::create_new(&begun)?;
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error);
    let lock = lock.context("lock a directory of one's own")?;
    // Under its name only now: one who sweeps never finds it free.
    std::fs::rename(&begun, dir.join(LOCK))?;
    Ok(lock)
}

pub fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        let names = cleanup::entries(Path::new(PLACE)).into_iter();
        let is_ours =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        names.filter(|path| is_ours(path)).for_each(|path| sweep(&path));
    });
}

fn sweep(dir: &Path) {
    let Ok(file) = File::open(dir.join(LOCK)) else { return };
    let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { return };
    cleanup::kill_all(dir);
    cleanup::clear(dir);
    let _ = std::fs::remove_dir_all(dir);
}
