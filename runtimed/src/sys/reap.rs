//! The one place that waits for children. The process that spawns also sweeps: PID 1 its shims and adopted
//! orphans, a shim its job's tree. Two waiters would steal each other's exit codes.
//!
//! Calls `waitpid` directly: nix rejects real-time signals, so a job killed by one would be reaped and its
//! exit lost.

#![allow(unsafe_code)]

use crate::core::job::RawExit;
use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

/// The result of one sweep.
#[derive(Debug, Default)]
pub struct Sweep {
    pub ended: Vec<(Pid, RawExit)>,
    /// No child is left, dead or alive.
    pub empty: bool,
}

/// Reaps every child that has ended. Never blocks.
pub fn sweep() -> Sweep {
    let mut sweep = Sweep::default();
    loop {
        match wait(-1, libc::WNOHANG) {
            Ok(None) => return sweep,
            Ok(Some((pid, status))) => sweep.ended.extend(ended(status).map(|exit| (pid, exit))),
            Err(Errno::EINTR) => {}
            Err(_) => {
                sweep.empty = true;
                return sweep;
            }
        }
    }
}

/// Waits for one child that is certain to end.
pub fn wait_for(pid: Pid) -> Option<RawExit> {
    loop {
        match wait(pid.as_raw(), 0) {
            Ok(found) => return found.and_then(|(_, status)| ended(status)),
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// A child that changed its state, with its raw wait status.
fn wait(pid: i32, options: i32) -> nix::Result<Option<(Pid, i32)>> {
    let mut status = 0;
    // SAFETY: the status is written to a number of ours that outlives the call.
    let found = Errno::result(unsafe { libc::waitpid(pid, &raw mut status, options) })?;
    Ok((found > 0).then_some((Pid::from_raw(found), status)))
}

/// The exit of a process; `None` where it only stopped or continued.
fn ended(status: i32) -> Option<RawExit> {
    if libc::WIFEXITED(status) {
        return Some(RawExit::Exited(libc::WEXITSTATUS(status)));
    }
    libc::WIFSIGNALED(status).then(|| RawExit::Signalled(libc::WTERMSIG(status)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[expect(clippy::zombie_processes, reason = "wait_for is what is tested")]
    fn a_death_by_a_real_time_signal_is_seen_like_any_other() {
        for (line, expected) in [
            ("exit 7", RawExit::Exited(7)),
            ("kill -9 $$", RawExit::Signalled(9)),
            ("kill -34 $$", RawExit::Signalled(34)),
            ("kill -64 $$", RawExit::Signalled(64)),
        ] {
            let child = Command::new("bash").args(["-c", line]).spawn().expect("bash");
            assert_eq!(wait_for(Pid::from_raw(child.id() as i32)), Some(expected), "{line}");
        }
    }
}
