//! The state of one watch, and the directories that the kernel watches for it.

use super::{
    batch::Batch,
    tree::{DirectoryId, Tree},
};
use crate::{
    FilesError, Workspace,
    limits::{PATH_MAX_BYTES, WATCH_DIRECTORIES_MAX},
    workspace::child_path,
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::{
        inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
        stat::{Mode, fstat},
    },
};
use protocol::files::FilePath;
use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

pub struct Watcher<'a> {
    pub workspace: &'a Workspace,
    pub top: FilePath,
    pub recursive: bool,
    pub directories_max: usize,
    pub inotify: Inotify,
    pub tree: Tree<WatchDescriptor>,
    pub batch: Batch<WatchDescriptor>,
    /// Directories that were moved before they could be opened.
    pub missed: Vec<Missed>,
    /// Why a part of the tree is not watched.
    pub incomplete: Option<String>,
    /// Why changes were lost.
    pub overflow: Option<&'static str>,
    /// Why nothing can be watched any more.
    pub ended: Option<&'static str>,
    /// Whether there was a change in a directory whose move is half seen.
    pub changed_in_move: bool,
}

pub enum Missed {
    /// A name of a watched directory.
    Child(WatchDescriptor, CString),
    /// The content of a watched directory.
    Content(WatchDescriptor),
}

/// Why a watched directory was not opened.
pub enum NotOpened {
    /// It was moved or deleted: the event follows.
    Elsewhere,
    /// The sandbox's user may not read it, or its path is too long for anybody.
    Unreadable,
}

/// The result of watching a directory by its name.
pub enum Watched {
    /// Not watched before; its content is unknown.
    New(WatchDescriptor),
    Known,
    /// There is no directory of this name, or none that can be watched.
    Absent,
}

impl<'a> Watcher<'a> {
    pub fn new(workspace: &'a Workspace, path: &FilePath, recursive: bool) -> Result<Self, FilesError> {
        let top = workspace.open_directory(path)?;
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .map_err(|errno| too_many(errno, path))?;
        let key = add_watch(&inotify, &top).map_err(|errno| too_many(errno, path))?;
        let id = id_of(&top).map_err(FilesError::at("inspect the directory", path))?;
        Ok(Self {
            workspace,
            top: path.clone(),
            recursive,
            directories_max: WATCH_DIRECTORIES_MAX,
            inotify,
            tree: Tree::new(key, id),
            batch: Batch::new(),
            missed: Vec::new(),
            incomplete: None,
            overflow: None,
            ended: None,
            changed_in_move: false,
        })
    }

    /// Opens a watched directory by its path, where that still leads to it.
    pub fn open(&mut self, key: WatchDescriptor) -> Result<OwnedFd, NotOpened> {
        let path = self.tree.path(key).ok_or(NotOpened::Elsewhere)?;
        let path = child_path(&self.top, &path);
        if path.0.len() > PATH_MAX_BYTES {
            return Err(NotOpened::Unreadable);
        }
        let opened = match self.workspace.open_directory(&path) {
            Ok(opened) => opened,
            Err(FilesError::Denied { .. }) => return Err(NotOpened::Unreadable),
            Err(FilesError::Io { source, .. }) => {
                self.incomplete.get_or_insert(format!("a directory could not be opened: {source}"));
                return Err(NotOpened::Unreadable);
            }
            Err(_) => return Err(NotOpened::Elsewhere),
        };
        match id_of(&opened).ok() {
            Some(id) if self.tree.id(key) == Some(id) => Ok(opened),
            Some(_) | None => Err(NotOpened::Elsewhere),
        }
    }

    /// Watches a directory by its name below `parent`, of which `directory` is the descriptor.
    pub fn watch_below(&mut self, parent: WatchDescriptor, directory: &OwnedFd, name: &CStr) -> Watched {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = openat(directory, name, flags, Mode::empty());
        let watched = opened.and_then(|opened| Ok((add_watch(&self.inotify, &opened)?, id_of(&opened)?)));
        let (key, id) = match watched {
            Ok(watched) => watched,
            // Gone, or not a directory any more: the event follows. Or closed to the sandbox's user.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES) => return Watched::Absent,
            Err(Errno::ENOSPC) => return self.give_up("this user has no inotify watches left"),
            Err(errno) => return self.give_up(errno.desc()),
        };
        if !self.tree.contains(key) && self.tree.len() >= self.directories_max {
            let _ = self.inotify.rm_watch(key);
            return self.give_up("the tree has too many");
        }
        match self.tree.place(parent, name.to_bytes(), key, id) {
            Ok(placed) => {
                self.forget(&placed.removed);
                if placed.new { Watched::New(key) } else { Watched::Known }
            }
            Err(super::tree::OutOfDate) => {
                self.overflow = Some("directories were moved faster than they could be followed");
                Watched::Absent
            }
        }
    }

    fn give_up(&mut self, why: &str) -> Watched {
        let reason = || format!("{} directories are watched and others are not: {why}", self.tree.len());
        if self.incomplete.is_none() {
            self.incomplete = Some(reason());
        }
        Watched::Absent
    }

    /// Ends the watches of directories that are not in the tree any more.
    pub fn forget(&self, removed: &[WatchDescriptor]) {
        for key in removed {
            // The kernel removes that of a deleted directory itself.
            let _ = self.inotify.rm_watch(*key);
        }
    }

    pub fn remove(&mut self, key: WatchDescriptor) {
        let removed = self.tree.remove(key);
        self.forget(&removed);
    }
}

fn add_watch(inotify: &Inotify, directory: &OwnedFd) -> nix::Result<WatchDescriptor> {
    /// Without events of unnamed files; nix has no name for it.
    const IN_EXCL_UNLINK: AddWatchFlags = AddWatchFlags::from_bits_retain(0x0400_0000);
    let flags = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR
        | IN_EXCL_UNLINK;
    let path = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
    inotify.add_watch(path.as_str(), flags)
}

fn id_of(directory: &OwnedFd) -> nix::Result<DirectoryId> {
    fstat(directory).map(|stat| DirectoryId { device: stat.st_dev, inode: stat.st_ino })
}

fn too_many(errno: Errno, path: &FilePath) -> FilesError {
    if matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOSPC) {
        let message =
            "no inotify instance or watch is left: end a watch, or raise fs.inotify.max_user_instances";
        return FilesError::TooMany { message: message.to_owned() };
    }
    FilesError::at("watch the directory", path)(errno)
}
