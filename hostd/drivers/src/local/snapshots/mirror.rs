//! Copies trees: all of one, or of a tree that was copied a moment ago only what has changed since.
//!
//! The tree belongs to a sandbox, which may change it meanwhile. No link is followed and nothing but a regular file is
//! read: every name is opened relative to its directory, and checked once it is open. The second copy is made while
//! nothing runs; what it leaves as it is, the kernel says by the time of the last change of a file, which no user can
//! set.

use super::{
    super::files::errno,
    copy_room::{CopyMeter, CopyRoom},
    excludes::Excludes,
    tree_limit::TreeLimit,
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, copy_file_range, openat, readlinkat},
    sys::{
        stat::{
            FchmodatFlags, FileStat, Mode, SFlag, UtimensatFlags, fchmodat, fstat, fstatat, mkdirat, mknodat,
            utimensat,
        },
        time::TimeSpec,
        uio::{pread, pwrite},
    },
    unistd::{
        Gid, LinkatFlags, Uid, UnlinkatFlags, Whence, fchownat, ftruncate, linkat, lseek, symlinkat, unlinkat,
    },
};
use std::{
    collections::{BTreeSet, HashMap},
    ffi::{CStr, CString, OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// A FIFO that took the place of a file does not block.
const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);
const WRITE: OFlag = OFlag::O_WRONLY.union(OFlag::O_CREAT).union(OFlag::O_EXCL).union(OFlag::O_CLOEXEC);
/// Bytes of one `copy_file_range`.
const PIECE_BYTES: usize = 16 << 20;
/// Where the kernel cannot copy.
const BUFFER_BYTES: usize = 256 << 10;
/// Nesting beyond which a tree is refused; each level holds two descriptors.
const DEPTH_MAX: usize = 400;
/// Attributes of a file, together.
const XATTR_NAMES_FEW_BYTES: usize = 512;
const XATTR_NAMES_MAX_BYTES: usize = 64 << 10;
const XATTR_VALUE_MAX_BYTES: usize = 64 << 10;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeKind {
    /// What a sandbox sees. Devices are left out.
    Visible,
    /// The upper directory of an overlay, with the marks of the kernel for what is deleted or moved.
    Upper,
}

/// What earlier copies of a tree found.
#[derive(Debug, Default)]
pub struct CopiedBefore {
    /// Files that changed since are copied again. Seconds and nanoseconds of the file system's clock.
    since: Option<(i64, i64)>,
    /// A directory that is another one now, by device and inode, is copied anew.
    directories: HashMap<PathBuf, (u64, u64)>,
    meter: CopyMeter,
}

impl CopiedBefore {
    /// Notes when the copy began.
    pub fn set_since(&mut self, since: (i64, i64)) {
        self.since = Some(since);
    }
}

pub struct Mirror<'a> {
    kind: TreeKind,
    excludes: &'a Excludes,
    /// Subtracted from owners, where the ids on disk are those of the host.
    first_id: u32,
    /// What an earlier copy to the same target left, and what this one finds.
    before: &'a mut CopiedBefore,
    /// The names of files with several of them, by device and inode.
    links: HashMap<(u64, u64), PathBuf>,
    to_top: OwnedFd,
    room: CopyRoom,
    /// Whether a later copy follows, in which nothing changes any more.
    is_first: bool,
}

/// A directory and its copy.
struct DirPair<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    path: &'a Path,
    depth: usize,
}

impl<'a> Mirror<'a> {
    /// A copy to an existing directory.
    pub fn to(
        to: &Path,
        kind: TreeKind,
        excludes: &'a Excludes,
        first_id: u32,
        before: &'a mut CopiedBefore,
    ) -> io::Result<Self> {
        let to_top = nix::fcntl::open(to, DIRECTORY, Mode::empty()).map_err(errno)?;
        let (links, room) = (HashMap::new(), CopyRoom::default());
        Ok(Self { kind, excludes, first_id, before, links, to_top, room, is_first: false })
    }

    /// Asks every few megabytes whether there is room for more; an error ends the copy.
    pub fn within(self, room: &CopyRoom) -> Self {
        Self { room: room.clone(), ..self }
    }

    /// The tree changes while it is copied; a later copy takes what could not be read.
    pub fn of_changing_tree(self) -> Self {
        Self { is_first: true, ..self }
    }

    /// Whether an error says that the tree changed while it was read.
    fn is_change(&self, error: &io::Error) -> bool {
        let error = error.raw_os_error().map(Errno::from_raw);
        match error {
            Some(Errno::ENOENT) => true,
            Some(
                Errno::ELOOP | Errno::ENOTDIR | Errno::EINVAL | Errno::ENXIO | Errno::ENODATA | Errno::ESTALE,
            ) => self.is_first,
            Some(_) | None => false,
        }
    }

    /// Makes the target equal to a tree.
    pub fn copy(mut self, from: &Path) -> io::Result<()> {
        let from = nix::fcntl::open(from, DIRECTORY, Mode::empty()).map_err(errno)?;
        let to = self.to_top.try_clone()?;
        let stat = fstat(&from).map_err(errno)?;
        let top = DirPair { from: from.as_fd(), to: to.as_fd(), path: Path::new(""), depth: 0 };
        self.copy_dir(&top)?;
        self.set_attributes(to.as_fd(), c".", &stat)
    }

    fn copy_dir(&mut self, dir: &DirPair<'_>) -> io::Result<()> {
        if dir.depth > DEPTH_MAX {
            return Err(TreeLimit::Depth(DEPTH_MAX).into());
        }
        self.copy_xattrs(dir.from, dir.to)?;
        let found = names(dir.from)?;
        for name in names(dir.to)?.difference(&found) {
            remove_entry(dir.to, name)?;
        }
        for name in &found {
            match self.copy_entry(dir, name) {
                // It went away, or became something else, while the sandbox runs.
                Err(error) if self.is_change(&error) => remove_entry(dir.to, name)?,
                copied => copied?,
            }
        }
        Ok(())
    }

    fn copy_entry(&mut self, dir: &DirPair<'_>, name: &CStr) -> io::Result<()> {
        let path = dir.path.join(os_str(name));
        let stat = fstatat(dir.from, name, AtFlags::AT_SYMLINK_NOFOLLOW).map_err(errno)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        if self.excludes.matches(&path) || !self.takes(kind, &stat) {
            return remove_entry(dir.to, name);
        }
        if kind == SFlag::S_IFDIR {
            return self.copy_subdir(dir, name, &path, &stat);
        }
        if is_as_copied(&stat, self.before) && is_same_kind(dir.to, name, kind) {
            if stat.st_nlink > 1 {
                self.links.entry((stat.st_dev, stat.st_ino)).or_insert(path);
            }
            return Ok(());
        }
        self.before.meter.add_entry(&self.room)?;
        remove_entry(dir.to, name)?;
        if stat.st_nlink > 1 {
            if let Some(first) = self.links.get(&(stat.st_dev, stat.st_ino)) {
                let linked = linkat(&self.to_top, first.as_path(), dir.to, name, LinkatFlags::empty());
                return linked.map_err(errno);
            }
            self.links.insert((stat.st_dev, stat.st_ino), path);
        }
        match kind {
            SFlag::S_IFREG => return self.copy_file(dir, name),
            SFlag::S_IFLNK => {
                let target = readlinkat(dir.from, name).map_err(errno)?;
                symlinkat(target.as_os_str(), dir.to, name).map_err(errno)?;
            }
            kind => mknodat(dir.to, name, kind, Mode::empty(), stat.st_rdev).map_err(errno)?,
        }
        self.set_attributes(dir.to, name, &stat)
    }

    /// Whether entries of a kind are copied.
    fn takes(&self, kind: SFlag, stat: &FileStat) -> bool {
        match kind {
            SFlag::S_IFREG | SFlag::S_IFDIR | SFlag::S_IFLNK | SFlag::S_IFIFO | SFlag::S_IFSOCK => true,
            // The mark of a deleted file.
            SFlag::S_IFCHR => self.kind == TreeKind::Upper && stat.st_rdev == 0,
            _ => false,
        }
    }

    fn copy_subdir(
        &mut self,
        dir: &DirPair<'_>,
        name: &CStr,
        path: &Path,
        stat: &FileStat,
    ) -> io::Result<()> {
        let found = (stat.st_dev, stat.st_ino);
        let known = self.before.directories.insert(path.to_owned(), found) == Some(found);
        if !known || !is_same_kind(dir.to, name, SFlag::S_IFDIR) {
            self.before.meter.add_entry(&self.room)?;
            remove_entry(dir.to, name)?;
            mkdirat(dir.to, name, Mode::S_IRWXU).map_err(errno)?;
        }
        let from = openat(dir.from, name, DIRECTORY, Mode::empty()).map_err(errno)?;
        let to = openat(dir.to, name, DIRECTORY, Mode::empty()).map_err(errno)?;
        let opened = fstat(&from).map_err(errno)?;
        self.copy_dir(&DirPair { from: from.as_fd(), to: to.as_fd(), path, depth: dir.depth + 1 })?;
        self.set_attributes(dir.to, name, &opened)
    }

    fn copy_file(&mut self, dir: &DirPair<'_>, name: &CStr) -> io::Result<()> {
        let source = File::from(openat(dir.from, name, READ, Mode::empty()).map_err(errno)?);
        let stat = fstat(&source).map_err(errno)?;
        if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
            return Err(errno(Errno::ENOENT));
        }
        let target = openat(dir.to, name, WRITE, Mode::S_IRUSR | Mode::S_IWUSR).map_err(errno)?;
        let Self { before, room, .. } = self;
        copy_content(&source, &target, stat.st_size, &mut |bytes| before.meter.add_bytes(bytes, room))?;
        self.copy_xattrs(source.as_fd(), target.as_fd())?;
        self.set_attributes(dir.to, name, &stat)
    }

    /// Owner before mode: a change of owner takes set-id bits away. Times last.
    fn set_attributes(&self, to: BorrowedFd<'_>, name: &CStr, stat: &FileStat) -> io::Result<()> {
        let inside = |id: u32| id.checked_sub(self.first_id).unwrap_or(id);
        let (uid, gid) = (Uid::from_raw(inside(stat.st_uid)), Gid::from_raw(inside(stat.st_gid)));
        fchownat(to, name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW).map_err(errno)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        if kind != SFlag::S_IFLNK {
            let mode = Mode::from_bits_truncate(stat.st_mode);
            fchmodat(to, name, mode, FchmodatFlags::FollowSymlink).map_err(errno)?;
        }
        let time = TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec);
        utimensat(to, name, &time, &time, UtimensatFlags::NoFollowSymlink).map_err(errno)
    }

    /// Makes the attributes of users, and in an upper directory those of the overlay, those of the source: what an earlier
    /// copy left, or a new file has from its directory, goes.
    fn copy_xattrs(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
        let (mut few, mut many) = ([0; XATTR_NAMES_FEW_BYTES], Vec::new());
        let names = xattr_names(from, &mut few, &mut many)?;
        let wanted: Vec<&[u8]> =
            names.split(|byte| *byte == 0).filter(|name| self.takes_xattr(name)).collect();
        for name in &wanted {
            let mut value = vec![0; XATTR_VALUE_MAX_BYTES];
            let length = rustix::fs::fgetxattr(from, *name, &mut value)?;
            rustix::fs::fsetxattr(to, *name, &value[..length], rustix::fs::XattrFlags::empty())?;
        }
        let (mut few, mut many) = ([0; XATTR_NAMES_FEW_BYTES], Vec::new());
        let found = xattr_names(to, &mut few, &mut many)?.split(|byte| *byte == 0);
        for name in found.filter(|name| self.takes_xattr(name) && !wanted.contains(name)) {
            rustix::fs::fremovexattr(to, name)?;
        }
        Ok(())
    }

    fn takes_xattr(&self, name: &[u8]) -> bool {
        name.starts_with(b"user.")
            || name.starts_with(b"system.posix_acl_")
            || self.kind == TreeKind::Upper && name.starts_with(b"trusted.overlay.")
    }
}

/// The names of the attributes of a file, each ended by a zero. Most files have none, or few: these are read to the stack.
fn xattr_names<'b>(
    file: BorrowedFd<'_>,
    few: &'b mut [u8; XATTR_NAMES_FEW_BYTES],
    many: &'b mut Vec<u8>,
) -> io::Result<&'b [u8]> {
    match rustix::fs::flistxattr(file, &mut few[..]) {
        Ok(length) => Ok(&few[..length]),
        Err(rustix::io::Errno::NOTSUP) => Ok(&[]),
        Err(rustix::io::Errno::RANGE) => {
            many.resize(XATTR_NAMES_MAX_BYTES, 0);
            let length = rustix::fs::flistxattr(file, &mut many[..])?;
            Ok(&many[..length])
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether a file has not changed since it was copied.
fn is_as_copied(stat: &FileStat, before: &CopiedBefore) -> bool {
    before.since.is_some_and(|since| (stat.st_ctime, stat.st_ctime_nsec) < since)
}

fn is_same_kind(to: BorrowedFd<'_>, name: &CStr, kind: SFlag) -> bool {
    fstatat(to, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind)
}

/// Told how many more bytes were copied; an error ends the copy.
type OnCopied<'a> = &'a mut dyn FnMut(u64) -> io::Result<()>;

/// Copies what a file holds; holes stay holes, and file systems that can share blocks do.
fn copy_content(from: &File, to: &OwnedFd, size: i64, copied: OnCopied<'_>) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let data = match lseek(from, at, Whence::SeekData) {
            Ok(data) => data,
            // Nothing but a hole is left.
            Err(Errno::ENXIO) => break,
            Err(error) => return Err(errno(error)),
        };
        let hole = lseek(from, data, Whence::SeekHole).map_err(errno)?;
        at = copy_range(from, to, (data, hole), copied)?;
    }
    // A file that became shorter is copied again, by its time.
    ftruncate(to, size).map_err(errno)
}

fn copy_range(from: &File, to: &OwnedFd, (start, end): (i64, i64), copied: OnCopied<'_>) -> io::Result<i64> {
    let (mut source_at, mut target_at) = (start, start);
    while source_at < end {
        let length = usize::try_from(end - source_at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        match copy_file_range(from, Some(&mut source_at), to, Some(&mut target_at), length) {
            Ok(0) => break,
            Ok(length) => copied(u64::try_from(length).unwrap_or(u64::MAX))?,
            // Another file system, as an overlay and what lies below it are.
            Err(Errno::EXDEV | Errno::EINVAL | Errno::EOPNOTSUPP) => {
                copy_bytes(from, to, (source_at, end), copied)?;
                break;
            }
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(end)
}

fn copy_bytes(from: &File, to: &OwnedFd, (start, end): (i64, i64), copied: OnCopied<'_>) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(end - start).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES)];
    let mut at = start;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(BUFFER_BYTES).min(buffer.len());
        let length = pread(from, &mut buffer[..wanted], at).map_err(errno)?;
        if length == 0 {
            break;
        }
        let mut written = 0;
        while written < length {
            written += pwrite(to, &buffer[written..length], at + i64::try_from(written).unwrap_or(0))
                .map_err(errno)?;
        }
        at += i64::try_from(length).unwrap_or(0);
        copied(u64::try_from(length).unwrap_or(u64::MAX))?;
    }
    Ok(())
}

fn names(dir: BorrowedFd<'_>) -> io::Result<BTreeSet<CString>> {
    let mut dir = Dir::openat(dir, c".", DIRECTORY, Mode::empty()).map_err(errno)?;
    let names = dir.iter().map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    let named = |name: &Result<CString, Errno>| !matches!(name, Ok(name) if name.as_c_str() == c"." || name.as_c_str() == c"..");
    names.filter(named).collect::<Result<_, _>>().map_err(errno)
}

/// Removes an entry of the copy, if it is there.
fn remove_entry(to: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    match unlinkat(to, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(Errno::EISDIR | Errno::EPERM) => {
            let path = Path::new("/proc/self/fd").join(to.as_raw_fd().to_string()).join(os_str(name));
            super::super::remove_tree::remove_tree(&path)
        }
        Err(error) => Err(errno(error)),
    }
}

fn os_str(name: &CStr) -> OsString {
    OsStr::from_bytes(name.to_bytes()).to_owned()
}
