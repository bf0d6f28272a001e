//! Files that only their user may change: read without following a link, and refused where other users may write to
//! them.

use super::{ContextsError, error::UnsafeFile};
use nix::{errno::Errno, libc, unistd::geteuid};
use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// Others may read it, but not write to it.
    Public,
    /// Only its user may read it.
    Secret,
}

/// Reads a file of at most `max_bytes`; `None` where there is none.
pub fn read(path: &Path, secrecy: Secrecy, max_bytes: u64) -> Result<Option<String>, ContextsError> {
    let io_error = |source| ContextsError::Io { doing: "read", path: path.to_owned(), source };
    let refused = |why| ContextsError::Unsafe { path: path.to_owned(), why };
    // A FIFO must not block the open.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if is_link(&error) => return Err(refused(UnsafeFile::Link)),
        Err(error) => return Err(io_error(error)),
    };
    let metadata = file.metadata().map_err(io_error)?;
    if !metadata.is_file() {
        return Err(refused(UnsafeFile::OtherKind("regular file")));
    }
    judge(&Ownership::of(&metadata), geteuid().as_raw(), secrecy).map_err(refused)?;
    read_bounded(file, max_bytes).map(Some).map_err(io_error)
}

/// Returns whether an open failed because the last part of the path is a link.
pub fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ELOOP as i32)
}

fn read_bounded(file: File, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(io::Error::other(format!("it has more than {max_bytes} bytes")));
    }
    Ok(text)
}

/// The owner of a file, and its permissions.
#[derive(Debug, Clone, Copy)]
pub struct Ownership {
    pub user: u32,
    pub mode: u32,
}

impl Ownership {
    pub fn of(metadata: &Metadata) -> Self {
        Self { user: metadata.uid(), mode: metadata.mode() & 0o7777 }
    }
}

/// Decides whether a file or directory is safe to use.
pub fn judge(found: &Ownership, own_user: u32, secrecy: Secrecy) -> Result<(), UnsafeFile> {
    let Ownership { user, mode } = *found;
    if user != own_user {
        return Err(UnsafeFile::OtherUser(user));
    }
    if mode & 0o022 != 0 {
        return Err(UnsafeFile::Writable(mode));
    }
    if secrecy == Secrecy::Secret && mode & 0o077 != 0 {
        return Err(UnsafeFile::Readable(mode));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_used_where_only_its_user_could_write_it() {
        let table = [
            (1000, 0o600, Secrecy::Secret, Ok(())),
            (1000, 0o400, Secrecy::Secret, Ok(())),
            (1000, 0o640, Secrecy::Secret, Err(UnsafeFile::Readable(0o640))),
            (1000, 0o604, Secrecy::Secret, Err(UnsafeFile::Readable(0o604))),
            (1000, 0o620, Secrecy::Secret, Err(UnsafeFile::Writable(0o620))),
            (1000, 0o644, Secrecy::Public, Ok(())),
            (1000, 0o755, Secrecy::Public, Ok(())),
            (1000, 0o664, Secrecy::Public, Err(UnsafeFile::Writable(0o664))),
            (1000, 0o777, Secrecy::Public, Err(UnsafeFile::Writable(0o777))),
            (0, 0o600, Secrecy::Secret, Err(UnsafeFile::OtherUser(0))),
            (0, 0o644, Secrecy::Public, Err(UnsafeFile::OtherUser(0))),
        ];
        for (user, mode, secrecy, expected) in table {
            assert_eq!(
                judge(&Ownership { user, mode }, 1000, secrecy),
                expected,
                "{user} {mode:o} {secrecy:?}"
            );
        }
    }
}
