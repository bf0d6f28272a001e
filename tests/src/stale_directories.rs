//! Directories of tests that were killed: their owner's lock on them is free, so the next test may clean up after them.

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";

/// The lock on a directory, held until its owner ends. What belongs to the directory may be elsewhere, in `content`.
pub fn claim(dir: &Path, content: &Path) -> Result<Flock<File>> {
    let begun = dir.join("lock.new");
    let mut file = File::create_new(&begun)?;
    file.write_all(content.as_os_str().as_bytes())?;
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error);
    let lock = lock.context("lock a directory of one's own")?;
    // Under its name only now: one who sweeps never finds it free.
    std::fs::rename(&begun, dir.join(LOCK))?;
    Ok(lock)
}

/// Removes abandoned directories with this prefix; `clear` is given the content of each first.
pub fn sweep(place: &Path, prefix: &str, clear: impl Fn(&Path)) {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes())) {
        let dir = entry.path();
        let Ok(file) = File::open(dir.join(LOCK)) else { continue };
        let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
        let Ok(content) = std::fs::read(dir.join(LOCK)) else { continue };
        clear(&PathBuf::from(std::ffi::OsStr::from_bytes(&content)));
        let _ = std::fs::remove_dir_all(dir);
    }
}
