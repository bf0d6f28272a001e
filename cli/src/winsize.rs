//! The size of the terminal: one ioctl.
#![allow(unsafe_code)]

use nix::libc::{TIOCGWINSZ, winsize};
use protocol::TtySize;
use std::os::fd::AsRawFd;

nix::ioctl_read_bad!(read_winsize, TIOCGWINSZ, winsize);

/// Returns the size of a terminal; `None` where it is unknown or the descriptor is not a terminal.
pub fn of(terminal: &impl AsRawFd) -> Option<TtySize> {
    let mut size = winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel writes one `winsize` to the place that the reference names, and keeps nothing.
    unsafe { read_winsize(terminal.as_raw_fd(), &raw mut size) }.ok()?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then_some(TtySize { cols: size.ws_col, rows: size.ws_row })
}
