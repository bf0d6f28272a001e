//! Looks at a sandbox: being launched, running, dead or absent, and how it died.

use super::{
    super::{DriverError, Sight},
    bring_up::{find, handle, open_lock, stdio_lines},
    cgroup::Oom,
    driver::Inner,
    files::{self, failed},
    init::Init,
    layout::SandboxDir,
    limits::{EVENTS_FILES_MAX, EVENTS_TAIL_MAX_BYTES},
};
use crate::core::Death;
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    fs::TryLockError,
    path::PathBuf,
    sync::{MutexGuard, PoisonError},
};
use tokio::io::{Interest, unix::AsyncFd};

impl Inner {
    pub fn look(&self, sandbox: &SandboxId) -> Result<Sight, DriverError> {
        let dir = self.dir(sandbox);
        if !dir.path().exists() {
            return Ok(self.remains(sandbox));
        }
        if is_launching(&dir)? {
            return Ok(Sight::Launching);
        }
        let kept = self.kept(sandbox)?;
        let group = self.group(sandbox);
        match (find(&dir, &group)?, kept) {
            (Some(init), Some(kept)) => {
                let kills = group.oom().map_or(0, |oom| oom.kills);
                self.oom_seen().insert(*sandbox, kills);
                Ok(Sight::Running { frozen: group.is_frozen(), handle: handle(&init, kept.uid_base) })
            }
            (Some(_), None) => {
                Err(DriverError::Damaged { message: format!("sandbox {sandbox} runs, but has no badge") })
            }
            (None, _) => Ok(self.remains(sandbox)),
        }
    }

    /// What is left of one that does not run.
    pub fn remains(&self, sandbox: &SandboxId) -> Sight {
        let (dir, group) = (self.dir(sandbox), self.group(sandbox));
        let left = dir.pid().exists() || self.layout.state(sandbox).exists() || group.exists();
        if !left {
            return Sight::Absent;
        }
        let in_order = ended_in_order(&dir);
        // Killed since PID 1 was last seen alive: it was among them, as nothing else is known to end it.
        let seen = self.oom_seen().get(sandbox).copied().unwrap_or(0);
        let oom = group.oom().filter(|oom| !in_order && oom.kills > seen).map(|oom| describe(&oom));
        Sight::Dead(Death { in_order, oom, last_lines: stdio_lines(&dir) })
    }

    pub fn oom_seen(&self) -> MutexGuard<'_, HashMap<SandboxId, u64>> {
        self.oom_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match find(&self.dir(sandbox), &self.group(sandbox))? {
            Some(init) => wait_for_end(init).await,
            None => Ok(()),
        }
    }
}

/// Works for every process of this machine, whoever started it.
#[allow(unsafe_code)]
pub async fn wait_for_end(init: Init) -> Result<(), DriverError> {
    // SAFETY: the descriptor is owned, and stays open and the same until the registration is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(init.pidfd, Interest::READABLE) };
    let watched = watched.map_err(|error| failed("watch PID 1")(error.into()))?;
    // It becomes readable once and stays so.
    watched.readable().await.map(drop).map_err(failed("wait for PID 1"))
}

/// Whether a runtime is at work on this sandbox, perhaps for an earlier hostd.
pub fn is_launching(dir: &SandboxDir) -> Result<bool, DriverError> {
    if !dir.lock().exists() {
        return Ok(false);
    }
    let lock = open_lock(dir).map_err(failed("open the launch lock"))?;
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(failed("look at the launch lock")(error)),
    }
}

fn describe(oom: &Oom) -> String {
    format!("{} MB, peak {} MB", oom.limit_bytes >> 20, oom.peak_bytes >> 20)
}

/// Whether the newest boot of runtimed said that it shuts down. What is there was written from inside:
/// it is read within bounds, and nonsense means no.
fn ended_in_order(dir: &SandboxDir) -> bool {
    let Some(newest) = newest_events(dir) else { return false };
    let bytes = files::read_tail(&newest, EVENTS_TAIL_MAX_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // `checksum cursor kind json`
    text.lines().any(|line| line.split(' ').nth(2) == Some("shutdown"))
}

/// Every boot begins a new file; names sort by age.
fn newest_events(dir: &SandboxDir) -> Option<PathBuf> {
    let events = dir.control().join("events");
    if !std::fs::symlink_metadata(&events).is_ok_and(|meta| meta.is_dir()) {
        return None;
    }
    let names = std::fs::read_dir(&events).ok()?.take(EVENTS_FILES_MAX).flatten();
    let logs = names.map(|entry| entry.file_name()).filter(|name| name.as_encoded_bytes().ends_with(b".log"));
    logs.max().map(|name| events.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::oci::layout::Layout;

    #[test]
    fn only_what_the_newest_boot_said_counts() {
        let place = tempfile::tempdir().expect("a directory");
        let id = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let dir = Layout::new(place.path().to_owned()).sandbox(&id);
        assert!(!ended_in_order(&dir), "nothing there");
        let events = dir.control().join("events");
        std::fs::create_dir_all(&events).expect("made");
        let write = |name: &str, text: &str| std::fs::write(events.join(name), text).expect("written");
        write(
            "0001-0001.log",
            "00000000 1.1 boot {}\n00000000 1.2 shutdown {}\n00000000 1.3 exec.ended {}\n",
        );
        assert!(ended_in_order(&dir));
        write("0002-0001.log", "00000000 2.1 boot {}\n00000000 2.2 exec.ended {\"shutdown\": 1}\n\u{0}\n");
        assert!(!ended_in_order(&dir), "an earlier boot's word");
        std::os::unix::fs::symlink(events.join("0001-0001.log"), events.join("0003-0001.log"))
            .expect("linked");
        assert!(!ended_in_order(&dir), "a link is not followed");
    }
}
