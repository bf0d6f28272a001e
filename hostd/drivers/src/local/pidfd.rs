//! pidfd system calls that no crate in use wraps.

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

/// Opens a pidfd: it never refers to another process, even when the pid is reused.
#[allow(unsafe_code)]
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers, touches no memory of ours.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }).map_err(errno)?;
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends a signal; a no-op when the process has exited.
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

/// The wait status of a process that is no child of hostd, once it was reaped. `None` on kernels before 6.15.
#[allow(unsafe_code)]
pub fn exit_status(pidfd: &OwnedFd) -> Option<i32> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request encodes the size of `info`, which outlives the call.
    let asked = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info) };
    (asked == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// `struct pidfd_info` of the kernel, in its first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xff, 11, 64 bytes)`.
const PIDFD_GET_INFO: libc::c_ulong = 0xC040_FF0B;

/// Whether the process has exited. Does not block.
pub fn has_exited(pidfd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    matches!(nix::poll::poll(&mut polled, PollTimeout::ZERO), Ok(ready) if ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_exit_status_is_known_after_reaping_where_the_kernel_supports_it() {
        for (script, expected) in [("exit 3", 3 << 8), ("kill -9 $$", 9)] {
            let mut child = Command::new("sh")
                .args(["-c", &format!("read x; {script}")])
                .stdin(std::process::Stdio::piped())
                .spawn()
                .expect("sh");
            let pidfd = pidfd_open(i32::try_from(child.id()).expect("a pid")).expect("a descriptor");
            assert_eq!(exit_status(&pidfd), None, "it runs");
            drop(child.stdin.take());
            child.wait().expect("it ends");
            let told = exit_status(&pidfd);
            assert!(told.is_none() || told == Some(expected), "{told:?}");
        }
    }
}
