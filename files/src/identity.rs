//! Accesses files with the rights of the sandbox's user, on one thread of hostd, for one verb.
//!
//! The user is the owner of the workspace's top directory, which only the driver sets. Without the file capabilities
//! hostd may not read what that user may not; without any other it takes no block that a file system keeps for root and
//! stays within quotas.
//!
//! Must not: cross an `await` (the guard is not `Send`).

use nix::{
    sys::stat::fstat,
    unistd::{Gid, Uid, setfsgid, setfsuid},
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};
use std::{cell::Cell, io, marker::PhantomData, os::fd::OwnedFd};

thread_local! {
    /// Whether this thread has no supplementary groups any more: they count for files beside `fsgid`.
    static GROUPS_DROPPED: Cell<bool> = const { Cell::new(false) };
}

/// The user that owns a workspace, as an id of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxUser {
    uid: Uid,
    gid: Gid,
}

impl SandboxUser {
    /// The owner of the top directory. A directory of root is no workspace.
    pub fn of(top: &OwnedFd) -> io::Result<Self> {
        let stat = fstat(top)?;
        let user = Self { uid: Uid::from_raw(stat.st_uid), gid: Gid::from_raw(stat.st_gid) };
        if user.uid.is_root() {
            return Err(io::Error::other("the workspace belongs to root"));
        }
        Ok(user)
    }
}

/// While it lives, this thread is the sandbox's user wherever files are concerned.
#[must_use = "the identity is restored when the guard is dropped"]
pub struct UserGuard {
    before: (Uid, Gid),
    capabilities: CapabilitySets,
    /// Keeps the guard on its thread: identity and capabilities belong to the thread.
    _not_send: PhantomData<*const ()>,
}

impl UserGuard {
    pub fn enter(user: SandboxUser) -> io::Result<Self> {
        if !GROUPS_DROPPED.get() {
            set_thread_groups(&[])?;
            GROUPS_DROPPED.set(true);
        }
        let sets = capabilities(None)?;
        let before = (setfsuid(user.uid), setfsgid(user.gid));
        // Created before the checks, so that a partial change is undone too.
        let guard = Self { before, capabilities: sets, _not_send: PhantomData };
        set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..sets })?;
        if current() == (user.uid, user.gid) {
            return Ok(guard);
        }
        Err(io::Error::other("hostd needs the capabilities SETUID and SETGID"))
    }
}

impl Drop for UserGuard {
    fn drop(&mut self) {
        // The capabilities first: they allow the rest. A thread that stays another user would fail later and be blamed
        // on the wrong verb.
        let restored = set_capabilities(None, self.capabilities).is_ok() && {
            setfsuid(self.before.0);
            setfsgid(self.before.1);
            // The file capabilities follow the change of user.
            set_capabilities(None, self.capabilities).is_ok() && current() == self.before
        };
        assert!(restored, "a thread may become hostd again");
    }
}

/// Setting an invalid id changes nothing and returns the current one.
fn current() -> (Uid, Gid) {
    (setfsuid(Uid::from_raw(u32::MAX)), setfsgid(Gid::from_raw(u32::MAX)))
}
