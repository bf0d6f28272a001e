//! Subvolumes of btrfs.

#![allow(unsafe_code)] // ioctls

use super::super::{files::errno, remove_tree};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    libc,
    sys::{
        stat::Mode,
        statfs::{BTRFS_SUPER_MAGIC, statfs},
    },
};
use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

/// `_IOW(0x94, number, 4096)`.
const SUBVOL_CREATE: libc::Ioctl = 0x5000_940e_u32 as libc::Ioctl;
const SNAP_DESTROY: libc::Ioctl = 0x5000_940f_u32 as libc::Ioctl;
const SNAP_CREATE_V2: libc::Ioctl = 0x5000_9417_u32 as libc::Ioctl;
/// `_IOWR(0x94, 61, 4096)`.
const GET_SUBVOL_ROOTREF: libc::Ioctl = 0xd000_943d_u32 as libc::Ioctl;
/// The inode of the top of every subvolume.
const SUBVOLUME_INODE: u64 = 256;
const NAME_MAX_BYTES: usize = 255;

#[repr(C)]
struct NameArgs {
    fd: i64,
    name: [u8; 4088],
}

#[repr(C)]
struct SnapshotArgs {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// The subvolumes in a subvolume, as many as the kernel returns at once.
#[repr(C)]
struct NestedArgs {
    min_treeid: u64,
    subvolumes: [[u64; 2]; 255],
    subvolumes_count: u8,
    unused: [u8; 7],
}

/// Whether the directory is the top of a subvolume.
pub fn is_subvolume(dir: &Path) -> bool {
    let top = std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.ino() == SUBVOLUME_INODE);
    top && is_btrfs(dir)
}

pub fn is_btrfs(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|disk| disk.filesystem_type() == BTRFS_SUPER_MAGIC)
}

/// Whether other subvolumes lie in a subvolume, which a snapshot of it leaves out.
pub fn has_nested(subvolume: &Path) -> io::Result<bool> {
    let top = open(subvolume)?;
    let mut args =
        NestedArgs { min_treeid: 0, subvolumes: [[0; 2]; 255], subvolumes_count: 0, unused: [0; 7] };
    // SAFETY: the descriptor is open, and the kernel writes the arguments, which have the size that the number says.
    let done = unsafe { libc::ioctl(top.as_raw_fd(), GET_SUBVOL_ROOTREF, &raw mut args) };
    match Errno::result(done) {
        Ok(_) => Ok(args.subvolumes_count > 0),
        // There are more than one answer holds.
        Err(Errno::EOVERFLOW) => Ok(true),
        Err(error) => Err(errno(error)),
    }
}

pub fn create(path: &Path) -> io::Result<()> {
    name_ioctl(path, SUBVOL_CREATE)
}

/// Makes a writable subvolume that has the content of another: in no time, and as of one moment.
pub fn snapshot(from: &Path, to: &Path) -> io::Result<()> {
    let (parent, name) = split(to)?;
    let source = open(from)?;
    let mut args = SnapshotArgs {
        fd: i64::from(source.as_raw_fd()),
        transid: 0,
        flags: 0,
        unused: [0; 4],
        name: [0; 4040],
    };
    args.name[..name.len()].copy_from_slice(name);
    // SAFETY: the descriptors are open, and the kernel reads the arguments, which have the size that the number says.
    let done = unsafe { libc::ioctl(parent.as_raw_fd(), SNAP_CREATE_V2, &raw mut args) };
    Errno::result(done).map(drop).map_err(errno)
}

/// Removes a subvolume at once, or a directory file by file.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_subvolume(path) && name_ioctl(path, SNAP_DESTROY).is_ok() {
        return Ok(());
    }
    // Other subvolumes may lie in it: they go file by file.
    remove_tree::remove_tree(path)
}

fn name_ioctl(path: &Path, number: libc::Ioctl) -> io::Result<()> {
    let (parent, name) = split(path)?;
    let mut args = NameArgs { fd: 0, name: [0; 4088] };
    args.name[..name.len()].copy_from_slice(name);
    // SAFETY: the descriptor is open, and the kernel reads the arguments, which have the size that the number says.
    let done = unsafe { libc::ioctl(parent.as_raw_fd(), number, &raw mut args) };
    Errno::result(done).map(drop).map_err(errno)
}

fn split(path: &Path) -> io::Result<(OwnedFd, &[u8])> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if name.len() > NAME_MAX_BYTES {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    Ok((open(parent)?, name.as_bytes()))
}

fn open(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    nix::fcntl::open(dir, flags, Mode::empty()).map_err(errno)
}

/// Makes a subvolume and a snapshot of it, and removes both.
pub fn probe(trash: &Path) -> Result<(), String> {
    if !is_btrfs(trash) {
        return Err("the data directory is not on btrfs".to_owned());
    }
    let id = ulid::Ulid::generate();
    let (first, second) = (trash.join(format!("btrfs-probe-{id}")), trash.join(format!("btrfs-copy-{id}")));
    let tried = create(&first).and_then(|()| snapshot(&first, &second));
    let removed = [first, second].iter().map(|path| remove(path)).collect::<io::Result<Vec<()>>>();
    tried.and(removed.map(drop)).map_err(|error| format!("subvolumes: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_as_large_as_the_kernels() {
        let sizes = [size_of::<NameArgs>(), size_of::<SnapshotArgs>(), size_of::<NestedArgs>()];
        assert_eq!(sizes, [4096; 3]);
    }
}
