//! Makes the places that mounts need in a root file system, without following what it contains.

use crate::driver::oci::{
    files::errno,
    mounts::{MOUNT_POINTS, RUNTIMED_INSIDE},
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{Mode, mkdirat},
};
use std::{io, path::Path};

pub fn make(rootfs: &Path) -> io::Result<()> {
    for point in MOUNT_POINTS {
        directory(rootfs, point).map_err(|error| at(point, &error))?;
    }
    file(rootfs, RUNTIMED_INSIDE.trim_start_matches('/')).map_err(|error| at(RUNTIMED_INSIDE, &error))
}

/// Every part of the path is a directory, or becomes one.
pub fn directory(rootfs: &Path, point: &str) -> io::Result<()> {
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

fn file(rootfs: &Path, name: &str) -> io::Result<()> {
    let dir = Dir::open(rootfs, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).map_err(errno)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    openat(&dir, name, flags, Mode::from_bits_truncate(0o755)).map(drop).map_err(errno)
}

fn at(point: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{point} must be a plain directory: {error}"))
}
