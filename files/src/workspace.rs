//! A workspace by its top directory. Every path is resolved beneath it by the kernel, in one call.

use crate::{
    FilesError,
    limits::{LINKS_MAX, RESOLVE_TRIES},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat},
    sys::stat::{FileStat, Mode, SFlag, fstat},
};
use protocol::files::FilePath;
use std::{
    ffi::CString,
    fs::File,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
};

pub struct Workspace {
    top: OwnedFd,
    /// What the kernel does with a path that leads out of the top: an absolute one, a `..`, such a link.
    outward: ResolveFlag,
}

/// A name below an open directory: what verbs create, rename and delete.
pub struct Slot {
    pub parent: OwnedFd,
    pub name: CString,
    pub path: FilePath,
}

impl Workspace {
    /// `top` is a directory; its owner decides whose workspace it is.
    pub fn new(top: OwnedFd) -> Self {
        Self { top, outward: ResolveFlag::RESOLVE_BENEATH }
    }

    /// The root directory of a sandbox, opened inside it: absolute paths and links are those of the sandbox.
    pub fn root(top: OwnedFd) -> Self {
        Self { top, outward: ResolveFlag::RESOLVE_IN_ROOT }
    }

    fn is_root(&self) -> bool {
        self.outward == ResolveFlag::RESOLVE_IN_ROOT
    }

    fn open(&self, path: &FilePath, flags: OFlag) -> Result<OwnedFd, FilesError> {
        let text = kernel_path(path)?;
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(self.outward | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        // The kernel gives up with EAGAIN where a rename elsewhere made it doubt a `..` of the path.
        for _ in 1..RESOLVE_TRIES {
            match openat2(&self.top, text.as_c_str(), how) {
                Err(Errno::EAGAIN) => std::thread::yield_now(),
                opened => return opened.map_err(FilesError::at("open the path", path)),
            }
        }
        openat2(&self.top, text.as_c_str(), how).map_err(FilesError::at("open the path", path))
    }

    /// Opens a path of any kind without touching what is there.
    pub fn open_path(&self, path: &FilePath, follow: bool) -> Result<OwnedFd, FilesError> {
        let no_follow = if follow { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        self.open(path, OFlag::O_PATH | no_follow)
    }

    pub fn open_directory(&self, path: &FilePath) -> Result<OwnedFd, FilesError> {
        self.open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
    }

    /// Opens a regular file; anything else is refused before it is opened.
    pub fn open_file(&self, path: &FilePath, flags: OFlag) -> Result<(File, FileStat), FilesError> {
        reopen(&self.open_path(path, true)?, path, flags)
    }

    /// The directory and the last name of a path. Of `a/b/`, `b`.
    pub fn slot(&self, path: &FilePath) -> Result<Slot, FilesError> {
        let (directory, name) = split(path)?;
        Ok(Slot { parent: self.open_directory(&directory)?, name, path: path.clone() })
    }

    /// As [`Self::slot`], at the end of a chain of links: the place that writing to this path writes to.
    pub fn followed_slot(&self, path: &FilePath) -> Result<Slot, FilesError> {
        let mut path = path.clone();
        for _ in 0..LINKS_MAX {
            let slot = self.slot(&path)?;
            match readlinkat(&slot.parent, slot.name.as_c_str()) {
                // Not a link, or nothing there.
                Err(Errno::EINVAL | Errno::ENOENT) => return Ok(slot),
                Err(errno) => return Err(FilesError::at("read the link", &path)(errno)),
                Ok(target) if self.is_root() && target.as_encoded_bytes().starts_with(b"/") => {
                    path = FilePath(target.into_vec());
                }
                Ok(target) => path = joined(&split(&path)?.0, &target.into_vec())?,
            }
        }
        Err(FilesError::invalid("the path has too many links"))
    }
}

/// Opens the regular file that an `O_PATH` descriptor refers to, whatever its path leads to by now.
pub fn reopen(found: &OwnedFd, path: &FilePath, flags: OFlag) -> Result<(File, FileStat), FilesError> {
    let stat = fstat(found).map_err(FilesError::at("inspect the file", path))?;
    if file_kind(&stat) != SFlag::S_IFREG {
        return Err(FilesError::NotAFile { path: path.clone() });
    }
    // Not to be kept waiting by a lease on the file.
    let flags = flags | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let link = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    let file = nix::fcntl::open(link.as_str(), flags, Mode::empty())
        .map_err(FilesError::at("open the file", path))?;
    Ok((File::from(file), stat))
}

pub fn file_kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// The path as the kernel takes it; the empty one is the top.
fn kernel_path(path: &FilePath) -> Result<CString, FilesError> {
    let bytes = if path.0.is_empty() { b".".to_vec() } else { path.0.clone() };
    CString::new(bytes).map_err(|_| FilesError::invalid("a path has no NUL byte"))
}

/// Splits off the last name.
fn split(path: &FilePath) -> Result<(FilePath, CString), FilesError> {
    let mut end = path.0.len();
    while end > 0 && path.0[end - 1] == b'/' {
        end -= 1;
    }
    let trimmed = &path.0[..end];
    let begin = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let name = &trimmed[begin..];
    match name {
        b"" | b"." => Err(FilesError::invalid("the path names the workspace itself")),
        b".." => Err(FilesError::invalid("the path ends in `..`")),
        name => {
            let name = CString::new(name).map_err(|_| FilesError::invalid("a path has no NUL byte"))?;
            Ok((FilePath(trimmed[..begin].to_vec()), name))
        }
    }
}

/// Where a link in `directory` leads. An absolute target stays absolute: the kernel refuses it.
fn joined(directory: &FilePath, target: &[u8]) -> Result<FilePath, FilesError> {
    match target {
        [b'/', ..] => Err(FilesError::Outside { path: FilePath(target.to_vec()) }),
        target => Ok(FilePath([&directory.0, target].concat())),
    }
}

/// `directory/name`.
pub fn child_path(directory: &FilePath, name: &[u8]) -> FilePath {
    match directory.0.as_slice() {
        b"" | b"." => FilePath(name.to_vec()),
        bytes if bytes.ends_with(b"/") => FilePath([bytes, name].concat()),
        bytes => FilePath([bytes, b"/", name].concat()),
    }
}
