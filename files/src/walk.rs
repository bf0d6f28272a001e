//! Visits a tree by descriptors, in the byte order of its paths, a directory before its content. Links are not
//! followed. Holds a bounded number of names per level, however many a directory has.

use crate::{
    Exchange, FilesError, Workspace,
    deadline::Deadline,
    directory::{entry_below, names, open_below},
    limits::{DEPTH_MAX, NAMES_HELD_MAX},
    selection::{DirectoryRules, Rules},
    workspace::child_path,
};
use protocol::files::{FileEntry, FilePath, FileType, Selection};
use std::{
    collections::{BTreeSet, VecDeque},
    ffi::{CStr, CString},
    os::fd::OwnedFd,
    time::Duration,
};

/// Names held at any level.
const NAMES_HELD_MIN: usize = 64;
const HALVINGS_MAX: usize = 8;

pub struct Walk<'a> {
    workspace: &'a Workspace,
    rules: Rules,
    directory_rules: Vec<DirectoryRules>,
    levels: Vec<Level>,
    depth_max: usize,
    /// Names held per level.
    held_max: usize,
    deadline: Deadline,
    /// Bytes of the path of the top, with its slash.
    prefix: usize,
    /// The directory of the entry returned last, to be entered next.
    entering: Option<(FilePath, CString, Resume)>,
}

/// A directory on the way.
struct Level {
    directory: OwnedFd,
    path: FilePath,
    /// The next names, in order.
    names: VecDeque<CString>,
    /// The last name that was held.
    last: Option<CString>,
    /// Whether there may be names after `last`.
    more: bool,
    /// Where the first name of an earlier page leads on.
    resume: Resume,
}

/// The rest of a cursor: names below the current directory.
type Resume = VecDeque<Vec<u8>>;

/// An entry, with the directory it was found in.
pub struct Visited<'a> {
    pub entry: FileEntry,
    pub directory: &'a OwnedFd,
    pub name: CString,
}

pub struct WalkOptions<'a> {
    pub depth: u32,
    pub select: &'a Selection,
    /// The last path of an earlier visit.
    pub after: Option<&'a FilePath>,
    /// Entries that are wanted at most, where that is known.
    pub wanted: usize,
}

impl<'a> Walk<'a> {
    pub fn new(
        workspace: &'a Workspace,
        top: &FilePath,
        options: &WalkOptions<'_>,
    ) -> Result<Self, FilesError> {
        let directory = workspace.open_directory(top)?;
        let prefix = child_path(top, b"").0.len();
        let rules = Rules::new(options.select)?;
        let resume = options.after.map(|after| cursor(after, prefix)).unwrap_or_default();
        let mut walk = Self {
            workspace,
            rules,
            directory_rules: vec![],
            levels: vec![],
            depth_max: (options.depth.max(1) as usize).min(DEPTH_MAX),
            held_max: options.wanted.saturating_add(1).min(NAMES_HELD_MAX),
            deadline: Deadline::of_tree(),
            prefix,
            entering: None,
        };
        walk.enter(directory, top.clone(), resume);
        Ok(walk)
    }

    /// Replaces the deadline of the walk.
    pub fn set_deadline(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// Leaves out time in which the verb waited for its caller.
    pub fn extend_deadline(&mut self, waited: Duration) {
        self.deadline.extend(waited);
    }

    fn enter(&mut self, directory: OwnedFd, path: FilePath, resume: Resume) {
        let below = child_path(&path, b"").0.len() - self.prefix;
        self.directory_rules.push(self.rules.of_directory(self.workspace, &path, below));
        let (names, last) = (VecDeque::new(), None);
        self.levels.push(Level { directory, path, names, last, more: true, resume });
    }

    /// The next entry; `None` at the end.
    pub fn next(&mut self, exchange: &dyn Exchange) -> Result<Option<Visited<'_>>, FilesError> {
        let found = loop {
            self.enter_pending();
            let held = self.held_at(self.levels.len());
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(name) = level.next_name(held)? else {
                self.levels.pop();
                self.directory_rules.pop();
                continue;
            };
            self.deadline.check(exchange)?;
            // Gone since its name was read.
            let Some(entry) = entry_below(&level.directory, &name, &level.path) else { continue };
            let is_directory = entry.kind == FileType::Directory;
            if self.rules.leaves_out(&self.directory_rules, &entry.path.0[self.prefix..], is_directory) {
                continue;
            }
            let resumed = level.resumes_at(&name);
            let rest = if resumed { std::mem::take(&mut level.resume) } else { Resume::new() };
            if is_directory && self.levels.len() < self.depth_max {
                self.entering = Some((entry.path.clone(), name.clone(), rest.into_iter().skip(1).collect()));
            }
            // It was the last entry of an earlier visit, or lies above it.
            if !resumed {
                break (entry, name);
            }
        };
        let directory = &self.levels.last().expect("the entry was found in it").directory;
        Ok(Some(Visited { entry: found.0, directory, name: found.1 }))
    }

    /// Names held at a level: half as many at each further one, so that all levels together have a limit.
    fn held_at(&self, levels: usize) -> usize {
        (self.held_max >> levels.min(HALVINGS_MAX)).max(NAMES_HELD_MIN)
    }

    /// Descends into the directory of the last entry. One that is gone, or became something else, is empty.
    fn enter_pending(&mut self) {
        let Some((path, name, resume)) = self.entering.take() else { return };
        let Some(level) = self.levels.last() else { return };
        if let Ok(directory) = open_below(&level.directory, &name, &path) {
            self.enter(directory, path, resume);
        }
    }
}

impl Level {
    fn next_name(&mut self, held_max: usize) -> Result<Option<CString>, FilesError> {
        if self.names.is_empty() && self.more {
            self.refill(held_max)?;
        }
        Ok(self.names.pop_front())
    }

    /// Reads the directory for the first names after the last one.
    fn refill(&mut self, held_max: usize) -> Result<(), FilesError> {
        let mut first = BTreeSet::new();
        let from = self.resume.front().map(Vec::as_slice);
        self.more = false;
        for name in names(&self.directory, &self.path)? {
            let name = name?;
            let seen = self.last.as_ref().is_some_and(|last| name <= *last);
            if seen || from.is_some_and(|from| name.to_bytes() < from) {
                continue;
            }
            first.insert(name);
            if first.len() > held_max {
                first.pop_last();
                self.more = true;
            }
        }
        self.last = first.last().cloned().or(self.last.take());
        self.names = first.into_iter().collect();
        Ok(())
    }

    fn resumes_at(&self, name: &CStr) -> bool {
        self.resume.front().is_some_and(|first| first == name.to_bytes())
    }
}

/// The names of a cursor below the top.
fn cursor(after: &FilePath, prefix: usize) -> Resume {
    let below = after.0.get(prefix..).unwrap_or_default();
    below.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}
