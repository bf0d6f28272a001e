//! Accesses files with the rights of the sandbox user, for one synchronous step.
//!
//! PID 1 is root without DAC_OVERRIDE: it cannot read a 0700 home, and it must not read for the user what the
//! user cannot read. Both follow from changing the identity that file permissions are checked against
//! (`fsuid`, `fsgid`) and nothing else: real and effective ids, and so the right to signal, stay the same.
//!
//! Must not: cross an `await` (the guard is not `Send`), block, or leave the identity changed.
//!
//! On each change the kernel clears the dumpable flag and the parent-death signal of the process.
//! Supplementary groups are not part of the guard, see [`drop_groups`].

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid, setgroups};
use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::path::Path;

/// Restoring only fails for want of memory, so a few tries are enough.
const RESTORE_TRIES: usize = 8;

/// The user and group that files are accessed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub uid: Uid,
    pub gid: Gid,
}

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("act as uid {uid} and gid {gid}: runtimed needs the capabilities SETUID and SETGID")]
    NotTaken { uid: Uid, gid: Gid },
    #[error("drop the supplementary groups: runtimed needs the capability SETGID")]
    Groups(#[source] Errno),
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("find the file")]
    NotFound,
    #[error("read what is not a regular file")]
    NotRegular,
    #[error("follow a symbolic link")]
    Symlink,
    #[error("read a file of more than {max} bytes")]
    TooLarge { max: u64 },
    #[error("read a file that the sandbox user may not read")]
    Denied,
    #[error("change to the sandbox user")]
    Identity(#[from] IdentityError),
    #[error("read the file")]
    Io(#[source] io::Error),
}

/// While it lives, this thread accesses files as another user.
#[must_use = "the identity is restored when the guard is dropped"]
pub struct FsIdentityGuard {
    before: Identity,
    /// Keeps the guard on its thread and out of `Send` futures: the identity belongs to the thread.
    _not_send: PhantomData<*const ()>,
}

impl FsIdentityGuard {
    pub fn enter(identity: Identity) -> Result<Self, IdentityError> {
        let before = Identity { gid: setfsgid(identity.gid), uid: setfsuid(identity.uid) };
        // Created before the check, so that a partial change is undone too.
        let guard = Self { before, _not_send: PhantomData };
        if current() == identity {
            return Ok(guard);
        }
        Err(IdentityError::NotTaken { uid: identity.uid, gid: identity.gid })
    }
}

impl Drop for FsIdentityGuard {
    fn drop(&mut self) {
        let restored = (0..RESTORE_TRIES).any(|_| {
            setfsuid(self.before.uid);
            setfsgid(self.before.gid);
            current() == self.before
        });
        if !restored {
            tracing::error!(wanted = ?self.before, now = ?current(), "failed to restore file-system identity");
        }
    }
}

/// The current file-system identity. Setting an invalid id changes nothing and returns the current one.
fn current() -> Identity {
    Identity { uid: setfsuid(Uid::from_raw(u32::MAX)), gid: setfsgid(Gid::from_raw(u32::MAX)) }
}

/// Drops all supplementary groups for good. Call it once at boot: they count for files beside `fsgid`, and
/// container runtimes give root a list of them (group 0 among them), which would let [`FsIdentityGuard`] read
/// files that the user cannot.
pub fn drop_groups() -> Result<(), IdentityError> {
    setgroups(&[]).map_err(IdentityError::Groups)
}

/// Reads a whole regular file as the user. Neither a FIFO, a device nor a lease can block it, and a symbolic
/// link at the end of the path is rejected.
pub fn read_file(identity: Identity, path: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let file = open_regular(identity, path)?;
    let size = file.metadata().map_err(ReadError::Io)?.len();
    if size > max_bytes {
        return Err(ReadError::TooLarge { max: max_bytes });
    }
    read_limited(file, max_bytes)
}

/// A file may grow while it is read, or not report its size; one byte beyond the limit is enough to notice.
fn read_limited(file: impl Read, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ReadError::TooLarge { max: max_bytes });
    }
    Ok(bytes)
}

fn open_regular(identity: Identity, path: &Path) -> Result<File, ReadError> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let fd = {
        let _user = FsIdentityGuard::enter(identity)?;
        open(path, flags, Mode::empty()).map_err(open_error)?
    };
    let mode = fstat(&fd).map_err(|errno| ReadError::Io(errno.into()))?.st_mode;
    if SFlag::from_bits_truncate(mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(ReadError::NotRegular);
    }
    // A link of the user may lead to /proc/self, which is PID 1 here and not the user.
    if fstatfs(&fd).is_ok_and(|statfs| statfs.filesystem_type() == PROC_SUPER_MAGIC) {
        return Err(ReadError::NotRegular);
    }
    Ok(File::from(fd))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the kernel has many errors")]
fn open_error(errno: Errno) -> ReadError {
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => ReadError::NotFound,
        Errno::ELOOP => ReadError::Symlink,
        Errno::EACCES | Errno::EPERM => ReadError::Denied,
        // Errors of opening a socket, or a device without a driver.
        Errno::ENXIO | Errno::ENODEV => ReadError::NotRegular,
        other => ReadError::Io(other.into()),
    }
}

#[cfg(test)]
mod tests {
    //! These tests need root: only root may change its identity.

    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::{chown, mkfifo};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::panic::catch_unwind;
    use tempfile::TempDir;

    const USER: Identity = Identity { uid: Uid::from_raw(1000), gid: Gid::from_raw(1000) };
    const MAX: u64 = 16;

    /// A 0700 directory of the user, as the workspace is, with one of each kind of file.
    fn workspace() -> (TempDir, std::path::PathBuf) {
        let outer = tempfile::tempdir().expect("temporary directory");
        fs::set_permissions(outer.path(), Permissions::from_mode(0o755)).expect("mode");
        let home = outer.path().join("home");
        fs::create_dir(&home).expect("home");
        fs::write(home.join("own"), "name: app").expect("write");
        fs::write(home.join("exact"), [b'x'; MAX as usize]).expect("write");
        fs::write(home.join("large"), [b'x'; MAX as usize + 1]).expect("write");
        fs::write(home.join("secret"), "root's").expect("write");
        fs::set_permissions(home.join("secret"), Permissions::from_mode(0o600)).expect("mode");
        fs::create_dir(home.join("directory")).expect("directory");
        symlink("/etc/shadow", home.join("shadow")).expect("link");
        symlink("own", home.join("link")).expect("link");
        symlink("/proc/self", home.join("self")).expect("link");
        mkfifo(&home.join("fifo"), Mode::from_bits_truncate(0o666)).expect("fifo");
        fs::set_permissions(home.join("fifo"), Permissions::from_mode(0o666)).expect("mode");
        drop(UnixListener::bind(home.join("socket")).expect("socket"));
        fs::set_permissions(home.join("socket"), Permissions::from_mode(0o666)).expect("mode");
        fs::set_permissions(&home, Permissions::from_mode(0o700)).expect("mode");
        chown(&home, Some(USER.uid), Some(USER.gid)).expect("chown needs root");
        (outer, home)
    }

    #[test]
    fn only_regular_files_that_the_user_may_read_are_read() {
        let (_outer, home) = workspace();
        let before = current();
        for (name, expected) in [
            ("own", "9 bytes"),
            ("exact", "16 bytes"),
            ("large", "TooLarge { max: 16 }"),
            ("secret", "Denied"),
            ("shadow", "Symlink"),
            ("link", "Symlink"),
            ("fifo", "NotRegular"),
            ("socket", "NotRegular"),
            ("directory", "NotRegular"),
            ("/dev/zero", "NotRegular"),
            ("self/status", "NotRegular"),
            ("self/environ", "Denied"),
            ("absent", "NotFound"),
            ("own/below", "NotFound"),
        ] {
            let got = match read_file(USER, &home.join(name), MAX) {
                Ok(bytes) => format!("{} bytes", bytes.len()),
                Err(error) => format!("{error:?}"),
            };
            assert_eq!(got, expected, "{name}");
            assert_eq!(current(), before, "identity after {name}");
        }
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_still_limited() {
        assert!(matches!(read_limited(io::repeat(b'x'), MAX), Err(ReadError::TooLarge { max: MAX })));
        assert_eq!(read_limited(io::repeat(b'x').take(MAX), MAX).expect("fits").len() as u64, MAX);
        assert_eq!(read_limited(io::empty(), u64::MAX).expect("empty"), b"");
    }

    #[test]
    fn the_identity_is_changed_while_the_guard_lives_and_back_afterwards() {
        let before = current();
        let guard = FsIdentityGuard::enter(USER).expect("root may");
        assert_eq!(current(), USER);
        drop(guard);
        assert_eq!(current(), before);
    }

    #[test]
    fn the_identity_is_restored_after_a_panic() {
        let before = current();
        let outcome = catch_unwind(|| {
            let _user = FsIdentityGuard::enter(USER).expect("root may");
            panic!("on purpose");
        });
        assert!(outcome.is_err());
        assert_eq!(current(), before);
    }

    #[test]
    fn an_identity_that_does_not_take_is_an_error_and_changes_nothing() {
        let before = current();
        let invalid = Identity { uid: Uid::from_raw(u32::MAX), gid: USER.gid };
        let outcome = FsIdentityGuard::enter(invalid).map(drop);
        // Reading back an invalid id must not look like success.
        assert!(matches!(outcome, Err(IdentityError::NotTaken { .. })), "{outcome:?}");
        assert_eq!(current(), before);
    }

    #[test]
    fn a_file_of_a_supplementary_group_is_denied_once_groups_are_dropped() {
        let (outer, _home) = workspace();
        let path = outer.path().join("for-group-0");
        fs::write(&path, "x").expect("write");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("mode");
        drop_groups().expect("root may");
        assert!(matches!(read_file(USER, &path, MAX), Err(ReadError::Denied)));
    }
}
