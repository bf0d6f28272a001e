//! System calls on mounts that nix has no functions for.

use nix::{errno::Errno, libc};
use std::{
    ffi::CString,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// Returns a copy of the mount at a path, attached nowhere, with its flags.
#[allow(unsafe_code)]
pub fn clone_mount(dir: &Path) -> Result<OwnedFd, Errno> {
    let path = c_path(dir)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: the path is a C string that lives until the call returns.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    let fd = RawFd::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel returned a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a mount at a path.
#[allow(unsafe_code)]
pub fn attach_mount(mount: BorrowedFd<'_>, at: &Path) -> Result<(), Errno> {
    let to = c_path(at)?;
    let (from, flags) = (mount.as_raw_fd(), libc::MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: both paths are C strings that live until the call returns.
    let done = unsafe {
        libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags)
    };
    Errno::result(done).map(drop)
}

/// Shows the files of a mount that is attached nowhere with the ids of a user namespace.
#[allow(unsafe_code)]
pub fn idmap_mount(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: user_namespace.as_raw_fd() as u64,
    };
    // SAFETY: the path is a C string and the attributes a structure of the given size; both live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(done).map(drop)
}

fn c_path(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)
}
