//! World-writable directories of a sandbox. Some runtimes mount a fresh tmpfs with the mode of the image's
//! directory.

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use std::path::Path;

const TMP_DIRS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// World-writable with the sticky bit.
const WORLD_WRITABLE: Mode = Mode::from_bits_truncate(0o1777);

pub fn make_world_writable() {
    for path in TMP_DIRS {
        if let Err(error) = make_writable(Path::new(path)) {
            tracing::debug!(path, %error, "mode of directory not changed");
        }
    }
}

/// Changes only what was mounted for it: a directory of the image keeps its mode.
fn make_writable(path: &Path) -> nix::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = open(path, flags, Mode::empty())?;
    let is_open = Mode::from_bits_truncate(fstat(&dir)?.st_mode) == WORLD_WRITABLE;
    if !is_open && fstatfs(&dir)?.filesystem_type() == TMPFS_MAGIC {
        fchmod(&dir, WORLD_WRITABLE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_mounted_tmpfs_directories_are_made_world_writable() {
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o7777;
        let place = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (mounted, link) = (place.path().join("mounted"), place.path().join("link"));
        std::fs::create_dir(&mounted).expect("made");
        symlink(&mounted, &link).expect("linked");
        let before = mode(&mounted);
        make_writable(&link).expect_err("a link");
        assert_eq!(mode(&mounted), before);
        make_writable(&mounted).expect("opened");
        assert_eq!(mode(&mounted), 0o1777);
        let proc = Path::new("/proc");
        let before = mode(proc);
        make_writable(proc).expect("left");
        assert_eq!(mode(proc), before);
    }
}
