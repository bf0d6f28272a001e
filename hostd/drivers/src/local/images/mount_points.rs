//! Creates the mount points in a root file system, without following symlinks in it.

use crate::local::files::errno;
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{Mode, fchmod, mkdirat},
};
use std::{fs::File, io, io::Write, path::Path};

/// Path of runtimed inside a sandbox.
pub const RUNTIMED_INSIDE: &str = "/.runtimed";

/// Directories that every image must have as mount points, besides `RUNTIMED_INSIDE`.
const MOUNT_POINTS: [&str; 8] =
    ["dev", "proc", "sys", "tmp", "var/tmp", "run/runtimed", "run/slipway", "home/sandbox"];

/// As engines write it.
const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Some runtimes give a tmpfs the mode of the directory below.
const SCRATCH: [&str; 2] = ["tmp", "var/tmp"];

pub fn make_all(rootfs: &Path) -> io::Result<()> {
    for point in MOUNT_POINTS {
        make_directory(rootfs, point).map_err(|error| at(point, &error))?;
    }
    for point in SCRATCH {
        make_world_writable(rootfs, point).map_err(|error| at(point, &error))?;
    }
    file(rootfs, RUNTIMED_INSIDE.trim_start_matches('/')).map_err(|error| at(RUNTIMED_INSIDE, &error))
}

/// Writes `/etc/hosts` where an image has none, as images of layers do: engines add it, and without it there is no
/// `localhost`. An image whose `/etc` is a link is left as it is.
pub fn add_hosts(rootfs: &Path) -> io::Result<()> {
    if make_directory(rootfs, "etc").is_err() {
        return Ok(());
    }
    let open = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let etc = Dir::open(&rootfs.join("etc"), open, Mode::empty()).map_err(errno)?;
    let create = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(&etc, "hosts", create, Mode::from_bits_truncate(0o644)) {
        Ok(hosts) => File::from(hosts).write_all(HOSTS.as_bytes()),
        Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

/// Creates a directory and its parents, each a plain directory.
pub fn make_directory(rootfs: &Path, point: &str) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut dir = Dir::open(rootfs, flags, Mode::empty()).map_err(errno)?;
    for part in point.split('/').filter(|part| !part.is_empty()) {
        match mkdirat(&dir, part, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(errno(error)),
        }
        dir = Dir::openat(&dir, part, flags, Mode::empty()).map_err(errno)?;
    }
    Ok(())
}

/// Makes a directory world-writable. `make_directory` has checked that no part of the path is a symlink.
fn make_world_writable(rootfs: &Path, point: &str) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = Dir::open(&rootfs.join(point), flags, Mode::empty()).map_err(errno)?;
    fchmod(&dir, Mode::from_bits_truncate(0o1777)).map_err(errno)
}

fn file(rootfs: &Path, name: &str) -> io::Result<()> {
    let dir = Dir::open(rootfs, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).map_err(errno)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    openat(&dir, name, flags, Mode::from_bits_truncate(0o755)).map(drop).map_err(errno)
}

fn at(point: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{point} must be a plain directory: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn an_image_without_hosts_gets_one_and_no_link_is_followed() {
        let temp = tempfile::tempdir().expect("a directory");
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).expect("made");
        let image = |name: &str| {
            let image = temp.path().join(name);
            fs::create_dir(&image).expect("made");
            image
        };
        let bare = image("bare");
        add_hosts(&bare).expect("written");
        assert!(fs::read_to_string(bare.join("etc/hosts")).expect("there").contains("localhost"));
        fs::write(bare.join("etc/hosts"), "own").expect("written");
        add_hosts(&bare).expect("left");
        assert_eq!(fs::read_to_string(bare.join("etc/hosts")).expect("there"), "own");
        let linked = image("linked");
        symlink(&outside, linked.join("etc")).expect("linked");
        add_hosts(&linked).expect("left");
        let dangling = image("dangling");
        fs::create_dir(dangling.join("etc")).expect("made");
        symlink(outside.join("hosts"), dangling.join("etc/hosts")).expect("linked");
        add_hosts(&dangling).expect("left");
        assert_eq!(fs::read_dir(&outside).expect("there").count(), 0);
    }
}
