//! Exit of PID 1: waiting for it, causing it, and reading from runtimed's log whether it was a clean
//! shutdown.

use super::{
    super::DriverError,
    files::{self, failed},
    init::Init,
    layout::SandboxDir,
    limits::{
        EVENTS_FILES_MAX, EVENTS_TAIL_MAX_BYTES, KILL_MAX_MS, OUTPUT_MAX_LINES, POLL_MS, REAPED_MAX_MS,
        STDIO_TAIL_MAX_BYTES, TERM_EVERY_MS, TERM_FIRST_MS,
    },
    pidfd::{exit_status, has_exited, pidfd_signal},
};
use nix::sys::signal::Signal;
use std::{path::PathBuf, time::Duration};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Instant, sleep, timeout},
};

/// Waits for the exit of a process, whichever process is its parent.
#[allow(unsafe_code)]
pub async fn wait_for_exit(init: Init) -> Result<(), DriverError> {
    // SAFETY: the descriptor is owned, and stays open and the same until the registration is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(init.pidfd, Interest::READABLE) };
    let watched = watched.map_err(|error| failed("watch PID 1")(error.into()))?;
    // A pidfd becomes readable once and stays readable.
    watched.readable().await.map(drop).map_err(failed("wait for PID 1"))
}

/// Like `wait_for_exit`, with the wait status. The kernel has it once the parent has reaped the process, a
/// moment later.
pub async fn wait_for_exit_status(init: Init) -> Result<Option<i32>, DriverError> {
    let pidfd = init.pidfd.try_clone().map_err(failed("watch PID 1"))?;
    wait_for_exit(init).await?;
    let mut status = None;
    let reaped = || {
        status = exit_status(&pidfd);
        Ok(status.is_some())
    };
    poll_until(REAPED_MAX_MS, reaped).await?;
    Ok(status)
}

/// Sends SIGTERM repeatedly, since PID 1 ignores signals until it has installed its handlers; SIGKILL after
/// `grace_ms`.
pub async fn terminate_init(init: &Init, grace_ms: u64) -> Result<(), DriverError> {
    let copy = || init.pidfd.try_clone().map_err(failed("watch PID 1"));
    let deadline = Instant::now() + Duration::from_millis(grace_ms);
    let mut pause = Duration::from_millis(TERM_FIRST_MS);
    while Instant::now() < deadline && !has_exited(&init.pidfd) {
        pidfd_signal(&init.pidfd, Signal::SIGTERM).map_err(failed("send SIGTERM to PID 1"))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let watched = Init { pidfd: copy()?, ..*init };
        // A wait that timed out starts again with the next signal.
        let _ = timeout(left.min(pause), wait_for_exit(watched)).await;
        pause = (pause * 2).min(Duration::from_millis(TERM_EVERY_MS));
    }
    if has_exited(&init.pidfd) {
        return Ok(());
    }
    pidfd_signal(&init.pidfd, Signal::SIGKILL).map_err(failed("kill PID 1"))?;
    let watched = Init { pidfd: copy()?, ..*init };
    match timeout(Duration::from_millis(KILL_MAX_MS), wait_for_exit(watched)).await {
        Ok(ended) => ended,
        Err(_) => Err(DriverError::TimedOut { what: "killing PID 1", after_ms: KILL_MAX_MS }),
    }
}

/// Polls a condition with backoff for a limited time; returns whether it became true.
pub async fn poll_until(
    max_ms: u64,
    mut is_done: impl FnMut() -> Result<bool, DriverError>,
) -> Result<bool, DriverError> {
    let deadline = Instant::now() + Duration::from_millis(max_ms);
    let mut wait = Duration::from_micros(100);
    while !is_done()? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(wait).await;
        wait = (wait * 2).min(Duration::from_millis(POLL_MS));
    }
    Ok(true)
}

/// Whether the newest boot of runtimed logged a shutdown. The sandbox can write these files: reads are
/// bounded, and invalid content means no.
pub fn shut_down_cleanly(dir: &SandboxDir) -> bool {
    let Some(newest) = newest_events(dir) else { return false };
    let bytes = files::read_tail(&newest, EVENTS_TAIL_MAX_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // `checksum cursor kind json`
    text.lines().any(|line| line.split(' ').nth(2) == Some("shutdown"))
}

/// The newest event file: every boot starts one, and names sort by age.
fn newest_events(dir: &SandboxDir) -> Option<PathBuf> {
    let events = dir.control().join("events");
    if !std::fs::symlink_metadata(&events).is_ok_and(|meta| meta.is_dir()) {
        return None;
    }
    let names = std::fs::read_dir(&events).ok()?.take(EVENTS_FILES_MAX).flatten();
    let logs = names.map(|entry| entry.file_name()).filter(|name| name.as_encoded_bytes().ends_with(b".log"));
    logs.max().map(|name| events.join(name))
}

/// Last output of PID 1, or of the runtime before it.
pub fn stdio_lines(dir: &SandboxDir) -> Vec<String> {
    let bytes = files::read_tail(&dir.stdio(), STDIO_TAIL_MAX_BYTES).unwrap_or_default();
    last_lines(&bytes, OUTPUT_MAX_LINES)
}

/// The last lines of a program's output, for display.
pub fn last_lines(bytes: &[u8], max: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(max)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::layout::Layout;

    #[test]
    fn only_the_log_of_the_newest_boot_counts() {
        let temp = tempfile::tempdir().expect("a directory");
        let id = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let dir = Layout::new(temp.path().to_owned(), "oci").sandbox(&id);
        assert!(!shut_down_cleanly(&dir), "nothing there");
        let events = dir.control().join("events");
        std::fs::create_dir_all(&events).expect("made");
        let write = |name: &str, text: &str| std::fs::write(events.join(name), text).expect("written");
        write(
            "0001-0001.log",
            "00000000 1.1 boot {}\n00000000 1.2 shutdown {}\n00000000 1.3 exec.ended {}\n",
        );
        assert!(shut_down_cleanly(&dir));
        write("0002-0001.log", "00000000 2.1 boot {}\n00000000 2.2 exec.ended {\"shutdown\": 1}\n\u{0}\n");
        assert!(!shut_down_cleanly(&dir), "an earlier boot's word");
        std::os::unix::fs::symlink(events.join("0001-0001.log"), events.join("0003-0001.log"))
            .expect("linked");
        assert!(!shut_down_cleanly(&dir), "a link is not followed");
    }
}
