//! How many descriptors may be open. PID 1 takes what its own limits add up to; jobs get what the sandbox
//! was given, because some programs grow slow, or wrong, with more than they know.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Kept free of jobs, so that the control socket can be answered whatever runs.
const RESERVE: u64 = 128;

/// Raises our own limit to `wanted`, as far as we may. Gives the one that was there before.
pub fn raise(wanted: u64) -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft < wanted {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
    Some(soft)
}

/// Sets our limit, and that of whatever we start, to one that was there before.
pub fn lower(to: u64) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, to.min(hard), hard);
    }
}

/// Whether a descriptor that was just opened is among the last ones: they are given out from the lowest.
pub fn is_scarce(opened: BorrowedFd<'_>) -> bool {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    opened.as_raw_fd() as u64 >= limit.saturating_sub(RESERVE)
}
