//! Limits of open descriptors. PID 1 raises its own to what its other limits add up to; jobs get the original
//! one, because some programs become slow or wrong with a larger limit.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Descriptors kept free of jobs, so that the control socket stays responsive.
const RESERVE: u64 = 128;

/// Raises our limit to `wanted`, as far as allowed. Returns the previous one.
pub fn raise(wanted: u64) -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft < wanted {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
    Some(soft)
}

/// Sets our limit, and that of child processes, to a previous one.
pub fn lower(to: u64) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, to.min(hard), hard);
    }
}

/// Whether a newly opened descriptor is among the last ones: the kernel assigns the lowest free number.
pub fn is_scarce(opened: BorrowedFd<'_>) -> bool {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    opened.as_raw_fd() as u64 >= limit.saturating_sub(RESERVE)
}
