//! Empties the trash that an earlier hostd left, whichever driver put it there, and knows which entries this process
//! fills. Their names have a wall-clock time, which says nothing after the clock was set.

use super::{layout::Layout, quota, remove_tree};
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::task::{JoinHandle, spawn_blocking};

/// All drivers of the process share the trash of its data directory.
static FILLED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A new entry that this process fills until this is dropped: it is not reaped, however old it looks.
#[derive(Debug)]
pub struct NewEntry {
    path: PathBuf,
}

impl NewEntry {
    /// Names an entry `<kind>-<ulid>`; nothing is made yet.
    pub fn reserve(trash: &Path, kind: &str) -> Self {
        let path = trash.join(format!("{kind}-{}", ulid::Ulid::generate()));
        filled().insert(path.clone());
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NewEntry {
    fn drop(&mut self) {
        filled().remove(&self.path);
    }
}

/// Whether this process fills the entry, or the directory from which a volume of this name is made.
pub fn is_filled(path: &Path) -> bool {
    filled().contains(&path.with_extension(""))
}

fn filled() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // A panic elsewhere leaves no entry half changed.
    FILLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the content of the trash in the background. Call it once, before any driver is opened: what is
/// there then belongs to no removal in progress. What an exit interrupts, the next hostd removes.
pub fn empty(data: &Path) -> JoinHandle<()> {
    let trash = Layout::trash_of(data);
    let stale = remove_tree::trash_entries(&trash).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(path = %trash.display(), %error, "failed to list the trash");
        }
        vec![]
    });
    spawn_blocking(move || {
        for path in stale {
            // The probe of a hostd that was killed may have left a mount.
            let unmounted = quota::detach(&path.join(quota::PROBE_MOUNT));
            if let Err(error) = unmounted.and_then(|()| remove_tree::remove_tree(&path)) {
                tracing::warn!(path = %path.display(), %error, "failed to empty the trash");
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn old_trash_is_removed_and_new_entries_stay() {
        let data = tempfile::tempdir().expect("a directory");
        empty(data.path()).await.expect("no trash is fine");
        let trash = data.path().join("trash");
        std::fs::create_dir_all(trash.join("workspace-1/deep")).expect("made");
        std::fs::write(trash.join("workspace-1/deep/file"), "x").expect("written");
        let emptied = empty(data.path());
        std::fs::create_dir(trash.join("new-1")).expect("made");
        emptied.await.expect("done");
        let left: Vec<_> =
            std::fs::read_dir(&trash).expect("there").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["new-1"]);
    }
}
