//! Unified diffs of a list of changed files, from one run of git, whose output is cut where a file begins.
//!
//! A line of a diff that begins with `diff --git ` begins a file: a line of content begins with a space, a sign or a
//! backslash, and one of a binary patch has no space.

use super::changes::Entry;
use super::git::{Git, GitError, path};
use crate::limits::LEFT_OUT_NAMES_MAX_BYTES;
use std::ffi::OsStr;
use std::io::BufRead;

const PATCH: [&str; 12] = [
    "diff-tree",
    "-r",
    "-p",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--unified=3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];
const BEGINS_FILE: &[u8] = b"diff --git ";

/// How much is read and kept.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// A larger file gets no diff.
    pub file_bytes: u64,
    pub diff_bytes: usize,
    pub all_bytes: usize,
}

/// Hands on the diff of every entry that has one within the bounds, in order.
pub fn each(
    git: &Git,
    (since, until): (&str, &str),
    entries: &[Entry],
    bounds: Bounds,
    mut take: impl FnMut(usize, &[u8]) -> Result<(), GitError>,
) -> Result<(), GitError> {
    let large = too_large(git, entries, bounds.file_bytes)?;
    let left_out = names_left_out(entries, &large);
    let (one, mut arguments) = match entries {
        [] => return Ok(()),
        [one] => (Some([b":(top,literal)", one.name.as_slice()].concat()), Vec::new()),
        _ => (None, vec![OsStr::new(":(top)")]),
    };
    arguments.extend(one.iter().chain(&left_out).map(|name| path(name).as_os_str()));
    let trees = [since, until, "--"];
    let arguments: Vec<&OsStr> = PATCH.iter().chain(&trees).map(OsStr::new).chain(arguments).collect();
    // The entries that git prints; those that are printed but not wanted are dropped.
    let printed = entries.iter().enumerate().filter(|(_, entry)| !is_left_out(&left_out, &entry.name));
    let mut sections = printed.flat_map(|(at, entry)| {
        let wanted = entry.known && !large[at];
        (1..=entry.sections).map(move |section| (at, wanted, section == entry.sections))
    });
    let mut left_bytes = bounds.all_bytes;
    git.stream(&arguments, None, |from| {
        let mut section = SectionReader::default();
        let mut diff = Vec::new();
        let mut whole = true;
        for (at, wanted, last) in sections.by_ref() {
            let room = bounds.diff_bytes.min(left_bytes).saturating_sub(diff.len());
            whole &= section.read(from, if wanted { room } else { 0 }, &mut diff)?;
            if !last {
                continue;
            }
            if wanted && whole && !diff.is_empty() {
                left_bytes -= diff.len();
                take(at, &diff)?;
            }
            diff.clear();
            whole = true;
        }
        Ok(())
    })
}

/// Reads one file of the output after the other.
#[derive(Default)]
struct SectionReader {
    /// The first line of the next file.
    next: Option<Vec<u8>>,
}

impl SectionReader {
    /// Appends one file's part to `to`, unless it is longer than `room`. Whether it was appended as a whole.
    fn read(&mut self, from: &mut impl BufRead, room: usize, to: &mut Vec<u8>) -> Result<bool, GitError> {
        let start = to.len();
        let mut whole = true;
        let mut line = self.next.take().unwrap_or_default();
        let mut first = !line.is_empty();
        loop {
            if !first {
                line.clear();
                let read = from.read_until(b'\n', &mut line).map_err(GitError::io("read a diff"))?;
                if read == 0 {
                    break;
                }
                if line.starts_with(BEGINS_FILE) && to.len() + usize::from(!whole) > start {
                    self.next = Some(line);
                    break;
                }
            }
            first = false;
            if whole && to.len() - start + line.len() <= room {
                to.extend_from_slice(&line);
            } else {
                to.truncate(start);
                whole = false;
            }
        }
        Ok(whole)
    }
}

/// Which entries are too large on either side, or have an object that is missing.
fn too_large(git: &Git, entries: &[Entry], max_bytes: u64) -> Result<Vec<bool>, GitError> {
    let names: String = entries
        .iter()
        .flat_map(|entry| entry.objects.iter().flatten())
        .flat_map(|name| [name.as_str(), "\n"])
        .collect();
    let printed = git.run(&["cat-file", "--batch-check=%(objectsize)"], Some(names.as_bytes()));
    let printed = String::from_utf8(printed?).map_err(|_| GitError::Unexpected)?;
    let mut sizes = printed.lines();
    let mut is_large =
        |_: &String| !sizes.next().is_some_and(|size| size.parse().is_ok_and(|size: u64| size <= max_bytes));
    Ok(entries
        .iter()
        .map(|entry| entry.objects.iter().flatten().map(&mut is_large).fold(false, |any, large| any | large))
        .collect())
}

/// Pathspecs for large files, as far as a command line has room; git prints the others in vain.
fn names_left_out(entries: &[Entry], large: &[bool]) -> Vec<Vec<u8>> {
    let mut room = LEFT_OUT_NAMES_MAX_BYTES;
    let names = entries.iter().zip(large).filter(|(_, large)| **large && entries.len() > 1);
    names
        .map(|(entry, _)| [LEFT_OUT, entry.name.as_slice()].concat())
        .take_while(|name| {
            let fits = name.len() <= room;
            room = room.saturating_sub(name.len());
            fits
        })
        .collect()
}

const LEFT_OUT: &[u8] = b":(top,exclude,literal)";

/// A name also stands for everything below it.
fn is_left_out(specs: &[Vec<u8>], name: &[u8]) -> bool {
    specs.iter().any(|spec| {
        let rest = spec.strip_prefix(LEFT_OUT).and_then(|left_out| name.strip_prefix(left_out));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    })
}
