//! The app directory, reached by descriptors: no component of a path is followed where it is a link, so nothing outside is
//! read or written, whatever processes of the sandbox do meanwhile. An error that is not about the path itself is never
//! taken for a missing file.

use super::git::{GitError, path};
use crate::limits::CHECKPOINT_DEPTH_MAX;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const DIRECTORY: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const FILE: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// What the owner of a directory needs to see and to change its entries.
const OWNER_R_X: u32 = 0o500;
const OWNER_RWX: u32 = 0o700;

pub struct AppDir {
    root: OwnedFd,
    /// Whether directories are made accessible that their owner made inaccessible.
    opens: bool,
    /// The directory that was used last: names come in order.
    last: Option<(Vec<u8>, OwnedFd)>,
}

/// The directory of a path.
pub enum Parent<'a> {
    Found(&'a OwnedFd),
    Missing,
    /// A part of the path is no directory.
    NotADirectory(Vec<u8>),
    /// A directory above may not be searched.
    Inaccessible,
}

/// What may be removed in the place of something that is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheWay {
    /// Only what has no content: directories, FIFOs and sockets.
    Empty,
    Anything,
}

impl AppDir {
    pub fn open(at: &Path, opens: bool) -> Result<Self, GitError> {
        let root = nix::fcntl::open(at, DIRECTORY, Mode::empty())
            .map_err(|error| GitError::io(format!("open {}", at.display()))(error.into()))?;
        Ok(Self { root, opens, last: None })
    }

    /// Forgets what was seen: directories may have been moved meanwhile.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Finds the directory of a path.
    pub fn parent(&mut self, name: &[u8]) -> Result<Parent<'_>, Errno> {
        let (above, _) = split(name);
        if above.is_empty() {
            return Ok(Parent::Found(&self.root));
        }
        if self.last.as_ref().is_none_or(|(known, _)| known != above) {
            let mut at = self.root.try_clone().map_err(|error| errno(&error))?;
            for end in ends(above) {
                let own = path(split(&above[..end]).1);
                match self.with_access(&at, || openat(&at, own, DIRECTORY, Mode::empty())) {
                    Ok(found) => at = found,
                    Err(Errno::ENOENT | Errno::ENAMETOOLONG) => return Ok(Parent::Missing),
                    Err(Errno::EACCES) => return Ok(Parent::Inaccessible),
                    Err(Errno::ENOTDIR | Errno::ELOOP) => {
                        return Ok(Parent::NotADirectory(above[..end].to_vec()));
                    }
                    Err(error) => return Err(error),
                }
            }
            self.last = Some((above.to_vec(), at));
        }
        Ok(self.last.as_ref().map_or(Parent::Missing, |(_, at)| Parent::Found(at)))
    }

    /// The file itself; none where there is none, or where it cannot be reached.
    pub fn stat(&mut self, name: &[u8]) -> Result<Option<FileStat>, Errno> {
        let opens = self.opens;
        let Parent::Found(parent) = self.parent(name)? else { return Ok(None) };
        let stat = || fstatat(parent, path(split(name).1), AtFlags::AT_SYMLINK_NOFOLLOW);
        match accessible(opens, parent, stat) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT | Errno::ENAMETOOLONG | Errno::EACCES) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file; none where it is something else or cannot be read.
    pub fn open_file(&mut self, name: &[u8]) -> Result<Option<(File, FileStat)>, Errno> {
        let Parent::Found(parent) = self.parent(name)? else { return Ok(None) };
        match openat(parent, path(split(name).1), FILE, Mode::empty()) {
            Ok(file) => {
                let stat = fstat(&file)?;
                Ok((kind(&stat) == SFlag::S_IFREG).then(|| (File::from(file), stat)))
            }
            Err(
                Errno::ENOENT
                | Errno::ENAMETOOLONG
                | Errno::EACCES
                | Errno::EPERM
                | Errno::ELOOP
                | Errno::ENXIO
                | Errno::ENODEV,
            ) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn read_link(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        use std::os::unix::ffi::OsStringExt;
        let Ok(Parent::Found(parent)) = self.parent(name) else { return None };
        nix::fcntl::readlinkat(parent, path(split(name).1)).ok().map(OsStringExt::into_vec)
    }

    /// Lets the owner read a file that is about to be replaced or deleted.
    pub fn make_readable(&mut self, name: &[u8]) -> Result<(), Errno> {
        let Parent::Found(parent) = self.parent(name)? else { return Ok(()) };
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(parent, path(split(name).1), flags, Mode::empty())?;
        let stat = fstat(&file)?;
        if kind(&stat) == SFlag::S_IFREG && stat.st_mode & 0o400 == 0 && is_own(&stat) {
            set_mode(&file, (stat.st_mode & 0o7777) | 0o400)?;
        }
        Ok(())
    }

    /// The entries of a directory: names, and what each is. Nothing for what is none; `EACCES` where it cannot be read.
    pub fn entries(&mut self, name: &[u8]) -> Result<Vec<(Vec<u8>, SFlag)>, Errno> {
        let opens = self.opens;
        let below = [name, b"/x"].concat();
        let parent = if name.is_empty() { Parent::Found(&self.root) } else { self.parent(&below)? };
        match parent {
            Parent::Found(directory) => accessible(opens, directory, || entries(directory)),
            Parent::Missing | Parent::NotADirectory(_) => Ok(Vec::new()),
            Parent::Inaccessible => Err(Errno::EACCES),
        }
    }

    /// Whether a directory that is closed belongs to this user, who may open it.
    pub fn could_open(&mut self, name: &[u8]) -> bool {
        !self.opens && self.stat(name).is_ok_and(|stat| stat.is_some_and(|stat| is_own(&stat)))
    }

    /// Deletes one file; one that is gone already is no error.
    pub fn delete(&mut self, name: &[u8]) -> Result<(), Errno> {
        match self.parent(name)? {
            Parent::Missing | Parent::NotADirectory(_) => Ok(()),
            Parent::Inaccessible => Err(Errno::EACCES),
            Parent::Found(parent) => remove(parent, split(name).1),
        }
    }

    /// Removes a directory, if it is empty; whether it is gone.
    pub fn delete_empty(&mut self, name: &[u8]) -> bool {
        self.forget();
        let Ok(Parent::Found(parent)) = self.parent(name) else { return false };
        let own = split(name).1;
        with_write_access(parent, || unlinkat(parent, path(own), UnlinkatFlags::RemoveDir)).is_ok()
    }

    /// Moves a staged file to its place.
    pub fn install_staged(
        &mut self,
        staging: &OwnedFd,
        staged: &Path,
        name: &[u8],
        in_the_way: InTheWay,
    ) -> Result<(), Errno> {
        let (above, own) = split(name);
        let parent = self.make(above, in_the_way)?;
        match fstatat(&parent, path(own), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) if kind(&stat) == SFlag::S_IFDIR => {
                self.forget();
                remove_tree(&parent, own, in_the_way, 0)?;
            }
            Ok(_) | Err(_) => {}
        }
        with_write_access(&parent, || renameat(staging, staged, &parent, path(own)))
    }

    /// Opens a directory, and makes it and those above it where they are missing or something else is there.
    fn make(&mut self, name: &[u8], in_the_way: InTheWay) -> Result<OwnedFd, Errno> {
        if name.is_empty() {
            return self.root.try_clone().map_err(|error| errno(&error));
        }
        if let Ok(Parent::Found(found)) = self.parent(&[name, b"/x"].concat()) {
            return found.try_clone().map_err(|error| errno(&error));
        }
        let mut at = self.root.try_clone().map_err(|error| errno(&error))?;
        for end in ends(name) {
            at = make_below(&at, split(&name[..end]).1, in_the_way)?;
        }
        Ok(at)
    }

    fn with_access<T>(&self, directory: &OwnedFd, look: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        accessible(self.opens, directory, look)
    }
}

fn make_below(at: &OwnedFd, own: &[u8], in_the_way: InTheWay) -> Result<OwnedFd, Errno> {
    let open = || openat(at, path(own), DIRECTORY, Mode::empty());
    match accessible(true, at, open) {
        Err(Errno::ENOENT) => {}
        Err(Errno::ENOTDIR | Errno::ELOOP) => {
            remove_in_the_way(at, own, in_the_way)?;
        }
        opened => return opened,
    }
    match with_write_access(at, || mkdirat(at, path(own), Mode::from_bits_truncate(0o777))) {
        Ok(()) | Err(Errno::EEXIST) => open(),
        Err(error) => Err(error),
    }
}

fn remove_in_the_way(parent: &OwnedFd, own: &[u8], in_the_way: InTheWay) -> Result<(), Errno> {
    let stat = fstatat(parent, path(own), AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if in_the_way == InTheWay::Empty && has_content(&stat) {
        return Err(Errno::EEXIST);
    }
    remove(parent, own)
}

fn remove(parent: &OwnedFd, own: &[u8]) -> Result<(), Errno> {
    match with_write_access(parent, || unlinkat(parent, path(own), UnlinkatFlags::NoRemoveDir)) {
        Err(Errno::ENOENT) => Ok(()),
        removed => removed,
    }
}

/// Removes a directory in the place of a file: all of it was added since the checkpoint.
fn remove_tree(parent: &OwnedFd, own: &[u8], in_the_way: InTheWay, depth: usize) -> Result<(), Errno> {
    if depth > CHECKPOINT_DEPTH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let directory = openat(parent, path(own), DIRECTORY, Mode::empty())?;
    if fstat(&directory)?.st_mode & OWNER_RWX != OWNER_RWX {
        make_owner_writable(&directory)?;
    }
    for (name, sort) in entries(&directory)? {
        if sort == SFlag::S_IFDIR {
            remove_tree(&directory, &name, in_the_way, depth + 1)?;
        } else {
            remove_in_the_way(&directory, &name, in_the_way)?;
        }
    }
    with_write_access(parent, || unlinkat(parent, path(own), UnlinkatFlags::RemoveDir))
}

/// Looks into a directory, where allowed also into one that its owner closed. It stays open: a directory that cannot be
/// read is in no checkpoint.
fn accessible<T>(opens: bool, directory: &OwnedFd, look: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match look() {
        Err(Errno::EACCES) if opens => {
            make_owner_writable(directory).map_err(|_| Errno::EACCES)?;
            look()
        }
        looked => looked,
    }
}

/// Changes a directory, also where it is read-only: it is so again afterwards. A directory that its owner cannot even read
/// could not be recorded like that, and stays open.
fn with_write_access<T>(directory: &OwnedFd, change: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match change() {
        Err(Errno::EACCES) => {}
        changed => return changed,
    }
    let before = make_owner_writable(directory)?;
    let changed = change();
    if before & OWNER_R_X == OWNER_R_X {
        set_mode(directory, before)?;
    }
    changed
}

/// Lets the owner change a directory; returns its mode before.
fn make_owner_writable(directory: &OwnedFd) -> Result<u32, Errno> {
    let before = fstat(directory)?.st_mode & 0o7777;
    set_mode(directory, before | OWNER_RWX)?;
    Ok(before)
}

/// A descriptor without access has no `fchmod`, but a name.
fn set_mode(file: &OwnedFd, mode: u32) -> Result<(), Errno> {
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::set_permissions(name, std::fs::Permissions::from_mode(mode)).map_err(|error| errno(&error))
}

fn entries(directory: &impl AsFd) -> Result<Vec<(Vec<u8>, SFlag)>, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut opened = Dir::openat(directory, ".", flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in opened.iter() {
        let name = entry?.file_name().to_bytes().to_vec();
        if matches!(name.as_slice(), b"." | b"..") {
            continue;
        }
        match fstatat(directory, path(&name), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => found.push((name, kind(&stat))),
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

pub fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

pub fn is_own(stat: &FileStat) -> bool {
    stat.st_uid == geteuid().as_raw()
}

/// Whether something would be lost with it.
pub fn has_content(stat: &FileStat) -> bool {
    matches!(kind(stat), SFlag::S_IFREG | SFlag::S_IFLNK)
}

/// The directory and the last name of a path.
pub fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&name[..at], &name[at + 1..]),
        None => (b"", name),
    }
}

/// Where each part of a path ends.
pub fn ends(name: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.chain((!name.is_empty()).then_some(name.len()))
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
