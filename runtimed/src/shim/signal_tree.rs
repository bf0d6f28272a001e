//! Signals to every descendant of the shim. As a subreaper the shim stays an ancestor of all of them.

use crate::core::job::RawExit;
use crate::sys::procfs;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpid};
use protocol::SignalScope;

pub fn signal_all(signal: Signal) {
    for pid in procfs::descendants(getpid().as_raw()) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

pub fn count() -> u32 {
    procfs::descendants(getpid().as_raw()).len() as u32
}

/// Sends a signal on a caller's request. The leader is not signalled once it was reaped: its pid may be
/// reused by then.
pub fn signal(leader: Option<Pid>, signal: Signal, scope: SignalScope) {
    match (scope, leader) {
        (SignalScope::Tree, _) => signal_all(signal),
        (SignalScope::Leader, Some(leader)) => drop(kill(leader, signal)),
        (SignalScope::Group, Some(leader)) => drop(killpg(leader, signal)),
        (SignalScope::Leader | SignalScope::Group, None) => {}
    }
}

/// Whether an exit looks like the kernel's out-of-memory killer.
pub fn was_killed(exit: RawExit) -> bool {
    exit == RawExit::Signalled(Signal::SIGKILL as i32)
}
