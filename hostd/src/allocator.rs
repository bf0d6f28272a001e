//! Returns memory to the system after a burst. glibc keeps freed memory in its arenas: after thousands of
//! connections have closed, hostd would stay as large as it ever was.

use nix::libc;
use std::time::Duration;
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{debug, warn};

/// Interval between two checks of free memory.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Free memory that may be kept: below this a trim is not worth the system calls to get it again.
const KEPT_MAX_BYTES: usize = 8 << 20;

/// Checks and trims until it is cancelled.
pub async fn trim_periodically() {
    loop {
        sleep(LOOK_EVERY).await;
        if let Err(error) = spawn_blocking(trim_if_free).await {
            warn!(%error, "failed to check free memory");
        }
    }
}

fn trim_if_free() {
    let Some(kept) = kept_bytes() else { return };
    if kept > KEPT_MAX_BYTES {
        trim();
        debug!(kept, left = kept_bytes(), "returned free memory to the system");
    }
}

/// Returns resident memory that is not allocated, as far as allocator and kernel report it.
fn kept_bytes() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_whitespace().skip(1).map(str::parse::<usize>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    let page = usize::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??).ok()?;
    Some(resident.saturating_sub(shared).saturating_mul(page).saturating_sub(used_bytes()))
}

/// Returns memory that was allocated and not freed.
#[allow(unsafe_code)]
pub fn used_bytes() -> usize {
    // SAFETY: `mallinfo2` takes no pointer and only reads the allocator's counters, under its own locks.
    let counted = unsafe { libc::mallinfo2() };
    counted.uordblks.saturating_add(counted.hblkhd)
}

#[allow(unsafe_code)]
fn trim() {
    // SAFETY: `malloc_trim` takes no pointer and releases only pages in which nothing is allocated.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of small allocations of which a few survive: those keep an arena from shrinking by itself.
    #[test]
    fn what_a_burst_left_is_given_back() {
        let mut pieces: Vec<Vec<u8>> = (0..16_384).map(|_| vec![1; 16 << 10]).collect();
        let survivors: Vec<Vec<u8>> = pieces.drain(..).step_by(64).collect();
        let before = kept_bytes().expect("/proc");
        assert!(before > 100 << 20, "{before} bytes are kept");
        // Other tests of this process may free memory meanwhile.
        let is_given_back = || {
            trim_if_free();
            kept_bytes().expect("/proc") < before / 2
        };
        assert!((0..100).any(|_| is_given_back()), "{before} before, {:?} after", kept_bytes());
        drop(survivors);
    }
}
