//! Packs a directory of this machine into a tar archive, without following links.

use super::{local_file::PARTIAL_PREFIX, open_regular, permissions};
use nix::libc;
use std::{
    ffi::OsStr,
    fs, io,
    io::{Read, Write},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};
use tar::{Builder, EntryType, Header};

/// A directory to pack.
pub struct ArchiveSource {
    pub directory: PathBuf,
    /// Told of every entry that is left out, and why.
    pub on_skipped: fn(&Path, &str),
}

/// Writes everything below the directory, with names relative to it; a directory before its content.
pub fn pack(source: &ArchiveSource, to: &mut dyn Write) -> io::Result<()> {
    let mut archive = Builder::new(to);
    append_directory(&mut archive, source, Path::new(""))?;
    archive.finish()
}

/// Writes an archive of one link.
pub fn pack_link(name: &[u8], target: &[u8], to: &mut dyn Write) -> io::Result<()> {
    let mut archive = Builder::new(to);
    let mut header = header(EntryType::Symlink, 0o777, 0);
    archive.append_link(&mut header, OsStr::from_bytes(name), OsStr::from_bytes(target))?;
    archive.finish()
}

fn append_directory(
    archive: &mut Builder<&mut dyn Write>,
    source: &ArchiveSource,
    below: &Path,
) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(source.directory.join(below))? {
        names.push(entry?.file_name());
    }
    names.sort();
    for name in names {
        if !name.as_bytes().starts_with(PARTIAL_PREFIX.as_bytes()) {
            append(archive, source, &below.join(name))?;
        }
    }
    Ok(())
}

fn append(archive: &mut Builder<&mut dyn Write>, source: &ArchiveSource, name: &Path) -> io::Result<()> {
    let path = source.directory.join(name);
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        // Deleted meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let (kind, mode) = (metadata.file_type(), permissions(&metadata));
    if kind.is_dir() {
        let mut header = header(EntryType::Directory, mode, metadata.mtime());
        archive.append_data(&mut header, name, io::empty())?;
        append_directory(archive, source, name)
    } else if kind.is_symlink() {
        let mut header = header(EntryType::Symlink, mode, metadata.mtime());
        archive.append_link(&mut header, name, fs::read_link(&path)?)
    } else if kind.is_file() {
        append_file(archive, source, name)
    } else {
        (source.on_skipped)(name, "is no file, directory or link");
        Ok(())
    }
}

fn append_file(archive: &mut Builder<&mut dyn Write>, source: &ArchiveSource, name: &Path) -> io::Result<()> {
    let (file, metadata) = match open_regular(&source.directory.join(name), false) {
        Ok(opened) => opened,
        Err(error) if is_replaced(&error) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            (source.on_skipped)(name, "permission denied");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut header = header(EntryType::Regular, permissions(&metadata), metadata.mtime());
    header.set_size(metadata.len());
    // The size stands before the bytes: what a file grows by meanwhile is left out, and where it shrinks the archive
    // would be wrong.
    let mut content = ExactReader { file: file.take(metadata.len()), left: metadata.len() };
    archive.append_data(&mut header, name, &mut content)
}

/// Deleted, or replaced by something else, since the directory was read.
fn is_replaced(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.kind() == io::ErrorKind::InvalidInput
        || error.raw_os_error() == Some(libc::ELOOP)
}

fn header(kind: EntryType, mode: u32, modified_s: i64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(u64::try_from(modified_s).unwrap_or(0));
    header.set_size(0);
    header
}

/// Fails where the file ends early.
struct ExactReader {
    file: io::Take<fs::File>,
    left: u64,
}

impl Read for ExactReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.left = self.left.saturating_sub(count as u64);
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a file became shorter while it was read",
            ));
        }
        Ok(count)
    }
}
