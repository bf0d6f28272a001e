//! Small files: read with a size limit, written atomically, never through a symlink.

use super::super::DriverError;
use nix::{errno::Errno, libc};
use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Maps an IO error to a driver error; `what` completes "could not …".
pub fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> DriverError {
    let what = what.into();
    move |source| match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => DriverError::DiskFull,
        _ => DriverError::Io { what, source },
    }
}

pub fn errno(error: Errno) -> io::Error {
    io::Error::from_raw_os_error(error as i32)
}

/// Reads a regular file that must not exceed `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    // Most files are smaller than this; files of the kernel are generated for each read, so one read is best.
    let mut bytes = Vec::with_capacity(max_bytes.min(4096) as usize + 1);
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {max_bytes} bytes")));
    }
    Ok(bytes)
}

pub fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read(path, max_bytes)?).into_owned())
}

/// Reads the last bytes of a regular file.
pub fn read_tail(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = open_plain(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file for reading; refuses symlinks, and FIFOs, which would block.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Replaces a file atomically. Returns it for a caller that wants to sync it.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
    let (temporary, file) = write_beside(path, bytes, mode)?;
    std::fs::rename(&temporary, path)?;
    Ok(file)
}

/// Replaces a file atomically, also where the power fails: the new content is on disk before it has the name. The caller
/// syncs the directory.
pub fn replace_synced(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (temporary, file) = write_beside(path, bytes, mode)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

/// Writes a new file beside the one that it will replace.
fn write_beside(path: &Path, bytes: &[u8], mode: u32) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.new"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&temporary)?;
    file.write_all(bytes)?;
    Ok((temporary, file))
}

/// Creates a directory with exactly this mode; an existing one is left as it is.
pub fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a file; a no-op when there is none.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
