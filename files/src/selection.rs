//! Which entries of a tree are visited: the caller's patterns, and the ignore files of the tree.

use crate::{FilesError, Workspace, limits::IGNORE_FILE_MAX_BYTES};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use nix::fcntl::OFlag;
use protocol::files::{FilePath, Selection};
use std::{ffi::OsStr, io::Read, os::unix::ffi::OsStrExt, path::Path};

/// Files of rules, the later ones over the earlier.
const RULE_FILES: [&[u8]; 2] = [b".gitignore", b".ignore"];

/// The caller's choice.
pub struct Rules {
    ignore: bool,
    exclude: Gitignore,
}

/// The rules of one directory, for everything below it.
pub struct DirectoryRules {
    matcher: Option<Gitignore>,
    /// Bytes of the directory's path, with its slash.
    prefix: usize,
}

impl Rules {
    pub fn new(selection: &Selection) -> Result<Self, FilesError> {
        let mut builder = GitignoreBuilder::new("");
        for line in &selection.exclude {
            let invalid = |error| FilesError::invalid(format!("exclude: {error}"));
            builder.add_line(None, line).map_err(invalid)?;
        }
        let exclude = builder.build().map_err(|error| FilesError::invalid(format!("exclude: {error}")))?;
        Ok(Self { ignore: selection.ignore, exclude })
    }

    /// Reads the rules of a directory. Rules that cannot be read or parsed are none.
    pub fn of_directory(&self, workspace: &Workspace, directory: &FilePath, prefix: usize) -> DirectoryRules {
        let matcher = self.ignore.then(|| read_rules(workspace, directory)).flatten();
        DirectoryRules { matcher, prefix }
    }

    /// Whether an entry is left out. `relative` is its path below the top of the visit; `stack` has the rules of the
    /// directories above it, the outermost first.
    pub fn leaves_out(&self, stack: &[DirectoryRules], relative: &[u8], is_directory: bool) -> bool {
        if self.exclude.matched(path(relative), is_directory).is_ignore() {
            return true;
        }
        if !self.ignore {
            return false;
        }
        if relative == b".git" || relative.ends_with(b"/.git") {
            return true;
        }
        let innermost_first = stack.iter().rev().filter_map(|rules| {
            let below = relative.get(rules.prefix..)?;
            Some(rules.matcher.as_ref()?.matched(path(below), is_directory))
        });
        for decision in innermost_first {
            match decision {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn read_rules(workspace: &Workspace, directory: &FilePath) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    let mut found = false;
    for name in RULE_FILES {
        let file = crate::workspace::child_path(directory, name);
        let Ok((file, _)) = workspace.open_file(&file, OFlag::O_RDONLY) else { continue };
        let mut text = Vec::new();
        if file.take(IGNORE_FILE_MAX_BYTES).read_to_end(&mut text).is_err() {
            continue;
        }
        for line in String::from_utf8_lossy(&text).lines() {
            // A line that is no pattern matches nothing, as git has it.
            found |= builder.add_line(None, line).is_ok();
        }
    }
    if found { builder.build().ok() } else { None }
}
