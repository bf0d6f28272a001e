//! The shim's end of the socket to PID 1.

use super::messages::{JobSpec, MESSAGE_MAX_BYTES, Report};
use crate::sys::packet::{self, Received};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::Exit;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Waits for the job. A shim may be started before there is one; a closed socket means that there will be
/// none.
pub fn receive_spec(control: &OwnedFd) -> Option<JobSpec> {
    let mut buffer = [0; MESSAGE_MAX_BYTES];
    loop {
        match packet::receive(control.as_fd(), &mut buffer) {
            Ok(Received::Packet { descriptor, .. }) => {
                let mut text = Vec::new();
                std::fs::File::from(descriptor?).read_to_end(&mut text).ok()?;
                return serde_json::from_slice(&text).ok();
            }
            Err(Errno::EAGAIN) => {
                let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut fds, PollTimeout::NONE);
            }
            Ok(Received::Closed) | Err(_) => return None,
        }
    }
}

pub fn refuse(control: &OwnedFd, message: String, output_end: u64) {
    let exit = Exit::SpawnFailed { message };
    send(control, &Report::Ended { exit, hints: Vec::new(), output_end, background: 0 }, None);
}

/// Sends a report. A failure means that PID 1 is gone, which the next poll notices.
pub fn send(control: &OwnedFd, report: &Report, attach: Option<BorrowedFd<'_>>) {
    let Ok(bytes) = serde_json::to_vec(report) else { return };
    let _ = packet::send(control.as_fd(), &bytes, attach, true);
}
