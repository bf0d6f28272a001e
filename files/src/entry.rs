//! A file as it is listed.

use crate::{
    FilesError,
    workspace::{Workspace, file_kind},
};
use nix::{
    errno::Errno,
    fcntl::readlinkat,
    sys::stat::{FileStat, SFlag, fstat},
};
use protocol::files::{FileEntry, FileOwner, FilePath, FileTime, FileType};
use std::os::{
    fd::{AsFd, OwnedFd},
    unix::ffi::OsStringExt,
};

pub fn stat(workspace: &Workspace, path: &FilePath, follow: bool) -> Result<FileEntry, FilesError> {
    of_path(&workspace.open_path(path, follow)?, path)
}

/// The entry of what an `O_PATH` descriptor refers to.
pub fn of_path(found: &OwnedFd, path: &FilePath) -> Result<FileEntry, FilesError> {
    let stat = fstat(found).map_err(FilesError::at("inspect the path", path))?;
    // The empty name is the link that the descriptor itself refers to.
    let target = target_of(&stat, || readlinkat(found.as_fd(), c"").map(OsStringExt::into_vec));
    Ok(of_stat(path.clone(), &stat, target))
}

/// Reads a link; one that was replaced meanwhile has no target.
pub fn target_of(stat: &FileStat, read: impl FnOnce() -> Result<Vec<u8>, Errno>) -> Option<FilePath> {
    (file_kind(stat) == SFlag::S_IFLNK).then(read).and_then(Result::ok).map(FilePath)
}

pub fn of_stat(path: FilePath, stat: &FileStat, target: Option<FilePath>) -> FileEntry {
    FileEntry {
        path,
        kind: type_of(stat),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        #[allow(clippy::useless_conversion, reason = "32 bits on ARM")]
        links: stat.st_nlink.into(),
        modified: FileTime { seconds: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) },
        etag: etag(stat),
        target,
        owner: Some(FileOwner { uid: stat.st_uid, gid: stat.st_gid }),
    }
}

/// The inode, its size and the time of its last change, of which the kernel notes every one.
pub fn etag(stat: &FileStat) -> String {
    format!("\"{:x}-{:x}-{:x}.{:x}\"", stat.st_ino, stat.st_size, stat.st_ctime, stat.st_ctime_nsec)
}

/// Whether the tag is one of these; `*` is any.
pub fn matches(tags: &[String], etag: &str) -> bool {
    tags.iter().any(|tag| tag == "*" || tag == etag)
}

pub fn type_of(stat: &FileStat) -> FileType {
    match file_kind(stat) {
        SFlag::S_IFREG => FileType::File,
        SFlag::S_IFDIR => FileType::Directory,
        SFlag::S_IFLNK => FileType::Symlink,
        SFlag::S_IFIFO => FileType::Fifo,
        SFlag::S_IFSOCK => FileType::Socket,
        _ => FileType::Device,
    }
}
