//! What is not synchronised: `--exclude`, our own unfinished files, and by default `.git` and what `.gitignore` files
//! of the local directory name.

use super::tree::Name;
use crate::{failure::Failure, files::PARTIAL_PREFIX};
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};
use std::{collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

pub const IGNORE_FILE: &[u8] = b".gitignore";

#[derive(Debug, Clone)]
pub struct IgnoreRules {
    exclude: Gitignore,
    /// Whether `.gitignore` files count.
    follows_files: bool,
    /// The rules of each directory that has some.
    by_directory: BTreeMap<Name, Gitignore>,
}

impl IgnoreRules {
    pub fn new(exclude: &[String], follows_files: bool) -> Result<Self, Failure> {
        let mut builder = GitignoreBuilder::new("");
        for glob in exclude {
            let wrong = |error| Failure::Usage(format!("--exclude {glob:?}: {error}"));
            builder.add_line(None, glob).map_err(wrong)?;
        }
        let exclude = builder.build().map_err(|error| Failure::Usage(format!("--exclude: {error}")))?;
        Ok(Self { exclude, follows_files, by_directory: BTreeMap::new() })
    }

    /// The same rules, without those that were read from files.
    pub fn without_files(&self) -> Self {
        Self { by_directory: BTreeMap::new(), ..self.clone() }
    }

    /// Adds the `.gitignore` file of a directory. Lines that are no patterns are left out, as git does.
    pub fn add_file(&mut self, directory: &[u8], content: &[u8]) {
        if !self.follows_files {
            return;
        }
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(content).lines() {
            // A wrong line ignores nothing.
            let _ = builder.add_line(None, line);
        }
        if let Ok(rules) = builder.build() {
            self.by_directory.insert(directory.to_vec(), rules);
        }
    }

    /// Whether a path, or a directory above it, is ignored.
    pub fn is_ignored(&self, name: &[u8], is_directory: bool) -> bool {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = ends.map(|end| (&name[..end], true));
        above.chain([(name, is_directory)]).any(|(name, is_directory)| self.names(name, is_directory))
    }

    /// Whether the rules name this path itself.
    fn names(&self, name: &[u8], is_directory: bool) -> bool {
        let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        if last.starts_with(PARTIAL_PREFIX.as_bytes()) || self.follows_files && last == b".git" {
            return true;
        }
        if matched(&self.exclude, name, is_directory).is_ignore() {
            return true;
        }
        // The rules of the nearest directory win.
        let mut ends: Vec<usize> =
            name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
        ends.reverse();
        let nearest =
            ends.into_iter().map(|end| (&name[..end], &name[end + 1..])).chain([(&name[..0], name)]);
        for (directory, rest) in nearest {
            let Some(rules) = self.by_directory.get(directory) else { continue };
            match matched(rules, rest, is_directory) {
                ignore::Match::Ignore(_) => return true,
                ignore::Match::Whitelist(_) => return false,
                ignore::Match::None => {}
            }
        }
        false
    }
}

fn matched<'a>(rules: &'a Gitignore, name: &[u8], is_directory: bool) -> ignore::Match<&'a Glob> {
    rules.matched(Path::new(OsStr::from_bytes(name)), is_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_git() {
        let mut rules = IgnoreRules::new(&["*.bak".to_owned(), "/only-top".to_owned()], true).expect("globs");
        rules.add_file(b"", b"node_modules/\n*.log\n# a comment\n/dist\n");
        rules.add_file(b"keep", b"!important.log\n");
        let table = [
            ("a.rs", false, false),
            ("a.bak", false, true),
            ("deep/down/a.bak", false, true),
            ("only-top", false, true),
            ("deep/only-top", false, false),
            ("node_modules", true, true),
            ("node_modules/x/y.js", false, true),
            ("web/node_modules/x.js", false, true),
            // A file of that name is no directory.
            ("node_modules", false, false),
            ("x.log", false, true),
            ("keep/x.log", false, true),
            ("keep/important.log", false, false),
            ("dist/a", false, true),
            ("src/dist/a", false, false),
            (".git/config", false, true),
            (".gitignore", false, false),
            (".slipway-part-0123", false, true),
        ];
        for (name, is_directory, ignored) in table {
            assert_eq!(rules.is_ignored(name.as_bytes(), is_directory), ignored, "{name}");
        }
        let mut all = IgnoreRules::new(&[], false).expect("globs");
        all.add_file(b"", b"*\n");
        assert!(!all.is_ignored(b"x.log", false) && !all.is_ignored(b".git/config", false));
    }
}
