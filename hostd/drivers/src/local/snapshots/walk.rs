//! Walks a tree that nobody changes, by descriptors: in the order of escaped paths, at any depth that a sandbox makes in
//! good faith, and with bounded memory.
//!
//! A directory has two keys among the names of its parent: `name`, at which it is visited itself, and `name/`, at which
//! its content is. So the entries come in the order of their paths as text, which is the order of a manifest.
//!
//! Of a directory with very many names, the smallest are held, and the directory is read again for the next ones. Of a
//! deep path, the last directories are open; one above them is opened again as the parent of the one below it.

use super::{
    super::{
        files::errno,
        limits::{TREE_DEPTH_MAX, WALK_DEPTH_MAX, WALK_NAMES_MAX},
    },
    tree_limit::TreeLimit,
};
use nix::{
    dir::{Dir, Type},
    fcntl::{AtFlags, OFlag, openat},
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat},
};
use std::{
    collections::BinaryHeap,
    ffi::{CStr, CString},
    fmt::Write,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// An entry of a tree; its name is relative to the open directory.
pub struct WalkedEntry<'a> {
    pub dir: BorrowedFd<'a>,
    pub name: &'a CStr,
    /// Relative to the top, escaped.
    pub path: &'a str,
    pub stat: FileStat,
}

impl WalkedEntry<'_> {
    pub fn kind(&self) -> SFlag {
        SFlag::from_bits_truncate(self.stat.st_mode) & SFlag::S_IFMT
    }
}

/// A directory on the way down.
struct Level {
    /// Absent while the directories that are open lie below it.
    dir: Option<OwnedFd>,
    device_and_inode: (u64, u64),
    /// The keys that come next, the first one last.
    keys: Vec<String>,
    /// The key that was taken last.
    taken: Option<String>,
    /// Whether the directory has keys beyond those that are held.
    has_more: bool,
    /// Bytes of the path of the directory, its slash included.
    path_bytes: usize,
}

/// Visits every entry below a directory.
pub fn walk(top: &Path, visit: impl FnMut(&WalkedEntry<'_>) -> io::Result<()>) -> io::Result<()> {
    walk_holding(top, WALK_NAMES_MAX, visit)
}

/// Visits every entry below a directory, with so many names held at most for each directory, and twice as many in all.
pub(super) fn walk_holding(
    top: &Path,
    names_max: usize,
    mut visit: impl FnMut(&WalkedEntry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let dir = nix::fcntl::open(top, DIRECTORY, Mode::empty()).map_err(errno)?;
    let mut walk = Walk { levels: vec![], path: String::new(), names_max, held: 0 };
    walk.enter(dir)?;
    while let Some(key) = walk.next_key()? {
        let Some(level) = walk.levels.last_mut() else { break };
        let dir = level.dir.as_ref().ok_or_else(|| io::Error::other("a directory is not open"))?;
        let (name, is_content) = match key.strip_suffix('/') {
            Some(name) => (name, true),
            None => (key.as_str(), false),
        };
        walk.path.truncate(level.path_bytes);
        walk.path.push_str(&key);
        let name = CString::new(unescaped(name)).map_err(|_| io::ErrorKind::InvalidFilename)?;
        if is_content {
            let inner = openat(dir, name.as_c_str(), DIRECTORY, Mode::empty()).map_err(errno)?;
            level.taken = Some(key);
            walk.enter(inner)?;
        } else {
            let stat = fstatat(dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).map_err(errno)?;
            visit(&WalkedEntry { dir: dir.as_fd(), name: &name, path: &walk.path, stat })?;
            level.taken = Some(key);
        }
    }
    Ok(())
}

struct Walk {
    levels: Vec<Level>,
    path: String,
    names_max: usize,
    /// The keys that all levels hold.
    held: usize,
}

impl Walk {
    fn enter(&mut self, dir: OwnedFd) -> io::Result<()> {
        if self.levels.len() >= WALK_DEPTH_MAX {
            return Err(TreeLimit::Depth(WALK_DEPTH_MAX).into());
        }
        let stat = fstat(&dir).map_err(errno)?;
        self.levels.push(Level {
            dir: Some(dir),
            device_and_inode: (stat.st_dev, stat.st_ino),
            keys: vec![],
            taken: None,
            has_more: true,
            path_bytes: self.path.len(),
        });
        let open_from = self.levels.len().saturating_sub(TREE_DEPTH_MAX);
        if let Some(level) = open_from.checked_sub(1).and_then(|above| self.levels.get_mut(above)) {
            level.dir = None;
        }
        Ok(())
    }

    /// The next key of the deepest directory that has one, which is the last level afterwards.
    fn next_key(&mut self) -> io::Result<Option<String>> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            if let Some(key) = level.keys.pop() {
                self.held -= 1;
                return Ok(Some(key));
            }
            if level.has_more {
                self.release_above();
                let names_max = self.names_max;
                let Some(level) = self.levels.last_mut() else { return Ok(None) };
                level.read_keys(names_max)?;
                self.held += level.keys.len();
            } else {
                self.leave()?;
            }
        }
    }

    /// Drops the keys of the directories above when they are too many: those are read again.
    fn release_above(&mut self) {
        if self.held < self.names_max {
            return;
        }
        self.held = 0;
        for level in self.levels.iter_mut().filter(|level| !level.keys.is_empty()) {
            level.keys = vec![];
            level.has_more = true;
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        let left = self.levels.pop().and_then(|level| level.dir);
        if let (Some(left), Some(parent)) = (left, self.levels.last_mut())
            && parent.dir.is_none()
        {
            let dir = openat(left, c"..", DIRECTORY, Mode::empty()).map_err(errno)?;
            let stat = fstat(&dir).map_err(errno)?;
            if (stat.st_dev, stat.st_ino) != parent.device_and_inode {
                return Err(io::Error::other("a directory was moved while the tree was read"));
            }
            parent.dir = Some(dir);
        }
        Ok(())
    }
}

impl Level {
    /// Reads the smallest keys after the one that was taken last.
    fn read_keys(&mut self, max: usize) -> io::Result<()> {
        let dir = self.dir.as_ref().ok_or_else(|| io::Error::other("a directory is not open"))?;
        let mut listed = Dir::openat(dir, c".", DIRECTORY, Mode::empty()).map_err(errno)?;
        let (mut smallest, mut has_more) = (BinaryHeap::new(), false);
        let mut hold = |key: String| {
            if self.taken.as_ref().is_none_or(|taken| key > *taken) {
                smallest.push(key);
                if smallest.len() > max {
                    has_more = true;
                    smallest.pop();
                }
            }
        };
        for entry in listed.iter() {
            let entry = entry.map_err(errno)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let key = escaped(name.to_bytes());
            let is_dir = match entry.file_type() {
                Some(kind) => kind == Type::Directory,
                None => is_dir(dir.as_fd(), name)?,
            };
            if is_dir {
                hold(format!("{key}/"));
            }
            hold(key);
        }
        self.keys = smallest.into_sorted_vec();
        self.keys.reverse();
        self.has_more = has_more;
        Ok(())
    }
}

/// Asks where the file system does not say in its lists.
fn is_dir(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    let stat = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).map_err(errno)?;
    Ok(SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
}

/// A name as text, without loss: bytes that are no text, and `%`, become `%XX`.
pub fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '%' => text.push_str("%25"),
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The bytes of an escaped name.
pub fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend(part.as_bytes());
            }
        }
    }
    bytes
}
