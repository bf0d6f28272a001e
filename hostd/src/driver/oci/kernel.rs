//! The few system calls that no crate we use wraps.

use super::files::errno;
use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

/// A descriptor of a process: it never means another one, however ids are used again.
#[allow(unsafe_code)]
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers, touches no memory of ours.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }).map_err(errno)?;
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// No such process any more is no error: it is what was wanted or will be seen.
#[allow(unsafe_code)]
pub fn pidfd_signal(pidfd: &OwnedFd, signal: nix::sys::signal::Signal) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open; a null siginfo means "as kill would".
    let sent =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal as i32, none, 0) };
    match Errno::result(sent) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

/// Whether the process has ended. Does not wait.
pub fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    matches!(nix::poll::poll(&mut polled, PollTimeout::ZERO), Ok(ready) if ready > 0)
}
