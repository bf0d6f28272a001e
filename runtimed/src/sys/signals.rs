//! Signal dispositions, which a process inherits.

#![allow(unsafe_code)]

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Real-time signals, which have no names.
const REAL_TIME: std::ops::RangeInclusive<i32> = 32..=64;
/// Size of the kernel's `sigaction`, in words, and of its signal set.
const ACTION_WORDS: usize = 4;
const SET_BYTES: usize = 8;

pub fn to_default(signal: Signal) -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: sets a default disposition; no handler of ours is left to run half way.
    unsafe { sigaction(signal, &default) }.map(drop)
}

/// Resets every inherited disposition, so that no job inherits an ignored signal. Called before any handler
/// is installed; the Rust runtime's SIGPIPE and stack guards stay as they are.
pub fn reset_inherited() {
    let ours = [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGPIPE, Signal::SIGSEGV, Signal::SIGBUS];
    for signal in Signal::iterator().filter(|signal| !ours.contains(signal)) {
        let _ = to_default(signal);
    }
    REAL_TIME.for_each(real_time_to_default);
}

/// The signals that request a shutdown. PID 1 is only sent signals that it handles or blocks.
fn termination_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT])
}

/// Blocks shutdown requests until they can be handled.
pub fn block_termination() {
    let _ = termination_signals().thread_block();
}

/// Unblocks them once there are handlers.
pub fn unblock_termination() {
    let _ = termination_signals().thread_unblock();
}

/// Resets a real-time signal by system call: libc reserves some of them and rejects changes, but glibc's
/// `posix_spawn` starts every process with those ignored.
fn real_time_to_default(number: i32) {
    let default = [0_u64; ACTION_WORDS];
    let before = std::ptr::null_mut::<u64>();
    // SAFETY: the kernel reads an action of zeros, which is the default, and writes nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), before, SET_BYTES) };
}
