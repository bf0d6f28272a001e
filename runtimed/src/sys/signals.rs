//! Dispositions of signals, which a process inherits from whoever started it.

#![allow(unsafe_code)]

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Signals without a name.
const REAL_TIME: std::ops::RangeInclusive<i32> = 32..=64;
/// What the kernel's own `sigaction` takes at most, in words, and the size of its set of signals.
const ACTION_WORDS: usize = 4;
const SET_BYTES: usize = 8;

pub fn to_default(signal: Signal) -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: sets a default disposition; no handler of ours is left to run half way.
    unsafe { sigaction(signal, &default) }.map(drop)
}

/// Gives up every disposition we were started with, so that no job inherits an ignored signal. Before
/// any handler of our own is installed; the runtime's SIGPIPE and stack guards stay as they are.
pub fn reset_inherited() {
    let ours = [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGPIPE, Signal::SIGSEGV, Signal::SIGBUS];
    for signal in Signal::iterator().filter(|signal| !ours.contains(signal)) {
        let _ = to_default(signal);
    }
    REAL_TIME.for_each(real_time_to_default);
}

/// The signals that ask us to end. PID 1 is only sent those it has a handler for, or has blocked.
fn termination_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT])
}

/// Lets a wish to end wait until there is somebody to hear it.
pub fn block_termination() {
    let _ = termination_signals().thread_block();
}

/// Once there are handlers.
pub fn unblock_termination() {
    let _ = termination_signals().thread_unblock();
}

/// By the system call: libc keeps some of them for itself and does not let one touch them, but glibc's
/// `posix_spawn` starts every process with those ignored.
fn real_time_to_default(number: i32) {
    let default = [0_u64; ACTION_WORDS];
    let before = std::ptr::null_mut::<u64>();
    // SAFETY: the kernel reads an action of zeros, which is the default, and writes nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), before, SET_BYTES) };
}
