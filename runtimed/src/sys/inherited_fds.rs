//! Descriptors that this process inherited.

#![allow(unsafe_code)]

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Takes an inherited descriptor as an owned one with close-on-exec. The old number stays open, so that no
/// other file gets it by chance.
pub fn take(number: i32) -> Option<OwnedFd> {
    // SAFETY: borrowed only for this call; fcntl fails cleanly where the number is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(inherited, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    inherited.try_clone_to_owned().ok()
}

/// Sets close-on-exec on everything inherited beyond the standard three, so that it reaches no job.
pub fn close_on_exec_all() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    for number in entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok()) {
        if number > 2 {
            // SAFETY: borrowed only for this call; the number was just listed as open.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            let _ = fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        }
    }
}
