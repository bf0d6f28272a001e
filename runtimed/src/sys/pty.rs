//! Pseudo-terminals.
//!
//! The master is opened under the user's file-system identity: a terminal belongs to the user who opened its
//! master, and `tmux`, `script` and `/dev/tty` only work on one that belongs to the job's user.

#![allow(unsafe_code)]

use super::fs_identity::{FsIdentityGuard, Identity};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_file};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid};
use protocol::TtySize;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub struct Pair {
    pub master: OwnedFd,
    pub slave: OwnedFd,
}

/// Opens a terminal that belongs to the user. The slave is taken from the master itself, not by a path.
pub fn open(size: Option<TtySize>, uid: Uid, gid: Gid) -> nix::Result<Pair> {
    let user = FsIdentityGuard::enter(Identity { uid, gid }).map_err(|_| Errno::EPERM)?;
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = open_file("/dev/ptmx", flags, Mode::empty())?;
    let unlock: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int, which lives until the call returns.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlock) })?;
    // SAFETY: TIOCGPTPEER takes open flags and gives a new descriptor.
    let slave = Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags.bits()) })?;
    // SAFETY: the kernel just made this descriptor for us.
    let slave = unsafe { OwnedFd::from_raw_fd(slave) };
    drop(user);
    if let Some(size) = size {
        resize(&master, size)?;
    }
    Ok(Pair { master, slave })
}

pub fn resize(master: &OwnedFd, size: TtySize) -> nix::Result<()> {
    let window = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one winsize, which lives until the call returns.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const window) })?;
    Ok(())
}

/// Makes a terminal the controlling one of this process, which must lead a session.
pub fn make_controlling(slave: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: TIOCSCTTY takes a plain integer.
    Errno::result(unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY, 0) })?;
    Ok(())
}
