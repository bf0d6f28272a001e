//! The paths that a checkpoint skips, kept in the message of its commit. A revert must tell them from files that were added
//! since: what was there before the task is never deleted.
//!
//! ```text
//! before task t1
//!
//! skipped-paths 1         the version; older checkpoints have no list
//! nested PATH             in base64: a repository whose files follow its own rules only
//! skipped PATH            could not be recorded; a path that ends with `/` is a whole directory
//! ignored PATH            the same for what the rules of that time ignored
//! truncated               the list was too long
//! ```

use crate::limits::SKIPPED_LIST_MAX_BYTES;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeSet;

const VERSION: &str = "skipped-paths 1";
const TRUNCATED: &str = "truncated";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedPaths {
    /// Too large, unreadable, or refused by git. A whole directory ends with `/`.
    pub skipped: BTreeSet<Vec<u8>>,
    pub ignored: BTreeSet<Vec<u8>>,
    /// Each ends with `/`.
    pub nested: BTreeSet<Vec<u8>>,
    /// Some paths are missing here: any path may have been there.
    pub truncated: bool,
}

impl SkippedPaths {
    /// The lines of a message.
    pub fn lines(&self) -> String {
        let mut lines = format!("{VERSION}\n");
        let sorts = [("nested", &self.nested), ("skipped", &self.skipped), ("ignored", &self.ignored)];
        let all = sorts.into_iter().flat_map(|(word, names)| names.iter().map(move |name| (word, name)));
        let mut truncated = self.truncated;
        for (word, name) in all {
            let line = format!("{word} {}\n", STANDARD.encode(name));
            if lines.len() + line.len() > SKIPPED_LIST_MAX_BYTES {
                truncated = true;
                break;
            }
            lines += &line;
        }
        if truncated {
            lines += TRUNCATED;
            lines.push('\n');
        }
        lines
    }

    /// Reads a commit; `None` where it has no list. A line that is not understood may name anything.
    pub fn parse(commit: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(commit).ok()?.lines().skip_while(|line| *line != VERSION);
        lines.next()?;
        let mut found = Self::default();
        for line in lines {
            let name =
                line.split_once(' ').and_then(|(word, name)| Some((word, STANDARD.decode(name).ok()?)));
            match name {
                Some(("skipped", name)) => drop(found.skipped.insert(name)),
                Some(("ignored", name)) => drop(found.ignored.insert(name)),
                Some(("nested", name)) => drop(found.nested.insert(name)),
                Some(_) | None => found.truncated = true,
            }
        }
        Some(found)
    }

    /// Whether a file, or a directory that ends with `/`, was there or is below a directory that was.
    pub fn contains(&self, name: &[u8]) -> bool {
        let holds = |name: &[u8]| self.skipped.contains(name) || self.ignored.contains(name);
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        holds(name) || slashes.into_iter().any(|(at, _)| holds(&name[..=at]))
    }

    /// Adds what git lists as ignored: a directory only where none of its content is listed by itself.
    pub fn add_ignored(&mut self, prefix: &[u8], listed: &[u8]) {
        let names: BTreeSet<&[u8]> =
            listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
        let mut names = names.into_iter().peekable();
        while let Some(name) = names.next() {
            let has_content = name.ends_with(b"/") && names.peek().is_some_and(|next| next.starts_with(name));
            if !has_content {
                self.ignored.insert([prefix, name].concat());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&[u8]]) -> BTreeSet<Vec<u8>> {
        names.iter().map(|name| name.to_vec()).collect()
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let paths = SkippedPaths {
            skipped: names(&[b"big\n\xff", b"closed/"]),
            ignored: names(&[b"deps/"]),
            nested: names(&[b"vendor/"]),
            truncated: false,
        };
        let message = format!("tree x\n\nbefore task t1\n\n{}", paths.lines());
        assert_eq!(SkippedPaths::parse(message.as_bytes()), Some(paths.clone()));
        for (name, contained) in [
            (&b"big\n\xff"[..], true),
            (b"closed/a/b", true),
            (b"closed/", true),
            (b"closed", false),
            (b"deps/x", true),
            (b"vendor/a", false),
        ] {
            assert_eq!(paths.contains(name), contained, "{name:?}");
        }
    }

    #[test]
    fn a_long_list_and_one_that_is_not_understood_are_truncated() {
        assert_eq!(SkippedPaths::parse(b"tree x\n\nbefore task t1\n"), None);
        let parsed = SkippedPaths::parse(b"\nskipped-paths 1\nother eA==\nskipped eA==\n").expect("a list");
        assert!(parsed.truncated && parsed.contains(b"x"), "{parsed:?}");
        let skipped = (0..SKIPPED_LIST_MAX_BYTES / 8).map(|n| n.to_string().into_bytes()).collect();
        let long = SkippedPaths { skipped, ..SkippedPaths::default() }.lines();
        assert!(long.len() < SKIPPED_LIST_MAX_BYTES + 100);
        assert!(SkippedPaths::parse(long.as_bytes()).is_some_and(|parsed| parsed.truncated));
    }

    #[test]
    fn a_directory_whose_content_is_listed_is_not_ignored_as_a_whole() {
        let mut paths = SkippedPaths::default();
        paths.add_ignored(b"web/", b"deps/\0logs/\0logs/a.log\0x.o\0");
        assert_eq!(paths.ignored, names(&[b"web/deps/", b"web/logs/a.log", b"web/x.o"]));
    }
}
