//! Descriptors a process was started with.

#![allow(unsafe_code)]

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A descriptor that was inherited, as one of our own that children do not get. Its old number stays
/// occupied by /dev/null's like, so that nothing else is opened there by chance.
pub fn take(number: i32) -> Option<OwnedFd> {
    // SAFETY: borrowed only for this call; fcntl fails cleanly where the number is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(inherited, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    inherited.try_clone_to_owned().ok()
}

/// Makes sure that nothing we were started with, beyond the standard three, reaches a job.
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
