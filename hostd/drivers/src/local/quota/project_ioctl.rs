//! System calls for projects of a file system and their quotas, which neither std nor nix have.

#![allow(unsafe_code)] // ioctls and quotactl

use nix::{
    errno::Errno,
    libc,
    sys::statfs::{BTRFS_SUPER_MAGIC, fstatfs},
};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

const FS_IOC_FSGETXATTR: libc::c_ulong = 0x801c_581f;
const FS_IOC_FSSETXATTR: libc::c_ulong = 0x401c_5820;
const FS_IOC_GETFLAGS: libc::c_ulong = 0x8008_6601;
const FS_IOC_SETFLAGS: libc::c_ulong = 0x4008_6602;
const FS_NOCOW_FL: libc::c_long = 0x0080_0000;
pub const FS_XFLAG_PROJINHERIT: u32 = 0x200;
const PRJQUOTA: libc::c_uint = 2;
const Q_GETQUOTA: libc::c_uint = 0x80_0007;
const Q_SETQUOTA: libc::c_uint = 0x80_0008;
const QIF_LIMITS: u32 = 1 | 4;

/// `struct fsxattr`
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileAttributes {
    pub xflags: u32,
    extsize: u32,
    nextents: u32,
    pub project: u32,
    cowextsize: u32,
    pad: [u8; 8],
}

/// `struct if_dqblk`: blocks of the limits have 1,024 bytes, the space in use is in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaBlock {
    pub limit_kb: u64,
    soft_kb: u64,
    pub used_bytes: u64,
    pub inodes_limit: u64,
    inodes_soft: u64,
    pub inodes: u64,
    block_time: u64,
    inode_time: u64,
    valid: u32,
}

pub fn attributes(fd: BorrowedFd<'_>) -> io::Result<FileAttributes> {
    let mut attributes = FileAttributes::default();
    // SAFETY: the descriptor is open, and the kernel writes a `fsxattr` to the pointer.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FSGETXATTR, &raw mut attributes) };
    Errno::result(done)?;
    Ok(attributes)
}

pub fn set_attributes(fd: BorrowedFd<'_>, attributes: &FileAttributes) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads a `fsxattr` from the pointer.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FSSETXATTR, std::ptr::from_ref(attributes)) };
    Errno::result(done)?;
    Ok(())
}

/// The limits and the use of a project on the file system of a descriptor.
pub fn quota(fd: BorrowedFd<'_>, project: u32) -> io::Result<QuotaBlock> {
    let mut block = QuotaBlock::default();
    quotactl(fd, Q_GETQUOTA, project, &mut block)?;
    Ok(block)
}

/// Sets the limits of a project; 0 is none.
pub fn set_quota(fd: BorrowedFd<'_>, project: u32, limit_kb: u64, inodes_limit: u64) -> io::Result<()> {
    let mut block = QuotaBlock { limit_kb, inodes_limit, valid: QIF_LIMITS, ..QuotaBlock::default() };
    quotactl(fd, Q_SETQUOTA, project, &mut block)
}

fn quotactl(
    fd: BorrowedFd<'_>,
    operation: libc::c_uint,
    project: u32,
    block: &mut QuotaBlock,
) -> io::Result<()> {
    let command = (operation << 8) | PRJQUOTA;
    let block = std::ptr::from_mut(block);
    // SAFETY: the descriptor is open, and the kernel reads or writes an `if_dqblk` at the pointer.
    let done = unsafe { libc::syscall(libc::SYS_quotactl_fd, fd.as_raw_fd(), command, project, block) };
    Errno::result(done)?;
    Ok(())
}

/// Makes btrfs overwrite an empty file in place, so that space allocated to it stays enough. Best effort.
pub fn overwrite_in_place(file: &File) {
    if !fstatfs(file).is_ok_and(|disk| disk.filesystem_type() == BTRFS_SUPER_MAGIC) {
        return;
    }
    let mut flags: libc::c_long = 0;
    // SAFETY: the descriptor is open, and the kernel writes no more than a `long` to the pointer.
    if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFLAGS, &raw mut flags) } == 0 {
        flags |= FS_NOCOW_FL;
        // SAFETY: the descriptor is open, and the kernel reads no more than a `long` from the pointer.
        unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_SETFLAGS, &raw const flags) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_the_kernels() {
        assert_eq!((size_of::<FileAttributes>(), size_of::<QuotaBlock>()), (28, 72));
    }
}
