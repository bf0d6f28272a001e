//! Project quotas: a directory and everything created below it belong to a project, whose space is limited.
//!
//! The project of a workspace is in its top directory; nothing else remembers it. A project without use and without
//! limits is free.

use super::{
    project_ioctl::{self as ioctl, FS_XFLAG_PROJINHERIT},
    volume::BYTES_PER_INODE,
};
use nix::errno::Errno;
use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
};

/// Projects of sandboxes: above all that operators assign by hand.
const PROJECT_FIRST: u32 = 1 << 24;
const PROJECT_LAST: u32 = (1 << 25) - 1;

fn open(dir: &Path) -> io::Result<File> {
    let flags = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags).open(dir)
}

/// Limits an empty directory. The caller holds the lock of the quota, so that no project is assigned twice.
pub fn assign(dir: &Path, disk_mb: u64) -> io::Result<()> {
    let dir = open(dir)?;
    let project = free_project(&dir)?;
    let inodes = disk_mb.saturating_mul(1 << 20) / BYTES_PER_INODE;
    // The limit first: with it the project counts as assigned.
    ioctl::set_quota(dir.as_fd(), project, disk_mb.saturating_mul(1024), inodes)?;
    let mut attributes = ioctl::attributes(dir.as_fd())?;
    attributes.project = project;
    attributes.xflags |= FS_XFLAG_PROJINHERIT;
    ioctl::set_attributes(dir.as_fd(), &attributes)
}

fn free_project(dir: &File) -> io::Result<u32> {
    for project in PROJECT_FIRST..=PROJECT_LAST {
        match ioctl::quota(dir.as_fd(), project) {
            Ok(block) if block.limit_kb == 0 && block.inodes_limit == 0 && block.inodes == 0 => {
                return Ok(project);
            }
            Ok(_) => {}
            // xfs: never used.
            Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => return Ok(project),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("every project of this file system is in use"))
}

/// The project that limits a directory, if one of ours does.
pub fn tagged_project(dir: &Path) -> Option<u32> {
    let found = ioctl::attributes(open(dir).ok()?.as_fd()).ok()?;
    let ours = (PROJECT_FIRST..=PROJECT_LAST).contains(&found.project);
    (ours && found.xflags & FS_XFLAG_PROJINHERIT != 0).then_some(found.project)
}

/// The bytes that a project uses.
pub fn project_usage(dir: &Path, project: u32) -> io::Result<u64> {
    Ok(ioctl::quota(open(dir)?.as_fd(), project)?.used_bytes)
}

/// Frees a project whose files are gone. `on` is a directory of the same file system.
pub fn release(on: &Path, project: u32) -> io::Result<()> {
    ioctl::set_quota(open(on)?.as_fd(), project, 0, 0)
}
