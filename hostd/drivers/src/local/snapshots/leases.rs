//! Who uses the files of a workspace beside its sandbox: hostd itself, for its files API, or a snapshot that takes them
//! away.

use protocol::api::SandboxId;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
};

/// Leases that are remembered before those that ended are dropped.
const LEASES_KEPT: usize = 1024;

#[derive(Default)]
pub struct Leases {
    users: Mutex<Users>,
    /// Notified when an exclusive use ends.
    ended: Condvar,
}

#[derive(Default)]
struct Users {
    shared: HashMap<SandboxId, Weak<()>>,
    exclusive: HashSet<SandboxId>,
}

/// A use of the files of a workspace by hostd itself; a snapshot does not take them away meanwhile.
#[derive(Debug)]
pub struct WorkspaceLease {
    _in_use: Arc<()>,
}

/// The time in which no lease of a workspace is given.
pub struct ExclusiveUse<'a> {
    leases: &'a Leases,
    sandbox: SandboxId,
}

impl Leases {
    /// Notes that hostd uses the files of a workspace, until the lease is dropped. Waits for an exclusive use of the same
    /// workspace to end.
    pub fn share(&self, sandbox: &SandboxId) -> WorkspaceLease {
        let users = self.users();
        let users = self.ended.wait_while(users, |users| users.exclusive.contains(sandbox));
        let mut users = users.unwrap_or_else(PoisonError::into_inner);
        if users.shared.len() >= LEASES_KEPT {
            users.shared.retain(|_, lease| lease.strong_count() > 0);
        }
        let current = users.shared.get(sandbox).and_then(Weak::upgrade);
        let in_use = current.unwrap_or_else(|| {
            let new = Arc::new(());
            users.shared.insert(*sandbox, Arc::downgrade(&new));
            new
        });
        WorkspaceLease { _in_use: in_use }
    }

    /// Keeps leases of a workspace from being given; `None` where it is in use.
    pub fn exclude(&self, sandbox: &SandboxId) -> Option<ExclusiveUse<'_>> {
        let mut users = self.users();
        let is_shared = users.shared.get(sandbox).is_some_and(|lease| lease.strong_count() > 0);
        let is_free = !is_shared && users.exclusive.insert(*sandbox);
        is_free.then(|| ExclusiveUse { leases: self, sandbox: *sandbox })
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        // A panic elsewhere leaves no entry half changed.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ExclusiveUse<'_> {
    fn drop(&mut self) {
        self.leases.users().exclusive.remove(&self.sandbox);
        self.leases.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_in_use_is_left_alone_until_its_last_lease_ends() {
        let leases = Leases::default();
        let sandbox: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let (first, second) = (leases.share(&sandbox), leases.share(&sandbox));
        drop(first);
        assert!(leases.exclude(&sandbox).is_none());
        drop(second);
        assert!(leases.exclude(&sandbox).is_some());
    }

    #[test]
    fn an_exclusive_use_holds_up_leases_of_its_workspace_and_of_no_other() {
        let leases = Leases::default();
        let [sandbox, other]: [SandboxId; 2] =
            ["01jb9xyzabcdefghjkmnpqrstv", "01jb9xyzabcdefghjkmnpqrstw"].map(|id| id.parse().expect("an id"));
        let exclusive = leases.exclude(&sandbox).expect("free");
        assert!(leases.exclude(&sandbox).is_none());
        drop(leases.share(&other));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| leases.share(&sandbox));
            assert!(!waiting.is_finished());
            drop(exclusive);
            waiting.join().expect("given when the exclusive use ended");
        });
    }
}
