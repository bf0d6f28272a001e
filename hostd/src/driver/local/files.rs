//! Small files: read within bounds, written whole, never through a link.

use super::super::DriverError;
use nix::{errno::Errno, libc};
use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Turns an error of the system into one of the driver's.
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

/// The whole of a regular file, which must not be larger than `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    // Most are smaller than this, and files of the kernel are made anew for each read.
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

/// The last bytes of a regular file.
pub fn read_tail(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = open_plain(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens for reading what is a regular file, not a link to one and not a FIFO that would block.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Writes a file whole or not at all. Returns it, for whoever wants it on the disk too.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
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
    std::fs::rename(&temporary, path)?;
    Ok(file)
}

/// Makes a directory with exactly this mode; one that is there is left as it is.
pub fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Nothing to remove is fine.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
