//! Gives memory back to the system after a burst. glibc keeps what was freed in its arenas for the next request:
//! after thousands of connections have gone, hostd would stay as large as it ever was.

use nix::libc;
use std::time::Duration;
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{debug, warn};

/// Between two looks at what is kept.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Free memory that may be kept: below this it is not worth the system calls to have it again.
const KEPT_MAX_BYTES: usize = 8 << 20;

/// Looks and gives back until it is cut off.
pub async fn trim_periodically() {
    loop {
        sleep(LOOK_EVERY).await;
        if let Err(error) = spawn_blocking(trim_if_free).await {
            warn!(%error, "could not look at what memory is kept");
        }
    }
}

fn trim_if_free() {
    let Some(kept) = kept_bytes() else { return };
    if kept > KEPT_MAX_BYTES {
        trim();
        debug!(kept, left = kept_bytes(), "gave free memory back");
    }
}

/// Resident memory that nothing uses, as far as the allocator and the kernel tell.
fn kept_bytes() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_whitespace().skip(1).map(str::parse::<usize>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    let page = usize::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??).ok()?;
    Some(resident.saturating_sub(shared).saturating_mul(page).saturating_sub(used_bytes()))
}

/// Memory that was allocated and not freed.
#[allow(unsafe_code)]
pub fn used_bytes() -> usize {
    // SAFETY: it takes no pointer and only reads what the allocator counts, under the allocator's own locks.
    let counted = unsafe { libc::mallinfo2() };
    counted.uordblks.saturating_add(counted.hblkhd)
}

#[allow(unsafe_code)]
fn trim() {
    // SAFETY: it takes no pointer and releases only pages in which nothing is allocated.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst of small pieces, of which a few survive: that keeps an arena from shrinking by itself.
    #[test]
    fn what_a_burst_left_is_given_back() {
        let mut pieces: Vec<Vec<u8>> = (0..16_384).map(|_| vec![1; 16 << 10]).collect();
        let survivors: Vec<Vec<u8>> = pieces.drain(..).step_by(64).collect();
        let before = kept_bytes().expect("/proc");
        assert!(before > 100 << 20, "{before} bytes are kept");
        // Other tests of this process may free much meanwhile.
        let is_given_back = || {
            trim_if_free();
            kept_bytes().expect("/proc") < before / 2
        };
        assert!((0..100).any(|_| is_given_back()), "{before} before, {:?} after", kept_bytes());
        drop(survivors);
    }
}
