//! Looks for a secret wherever it must not be: in files, in databases, in what processes were given.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of the kernel's is endless.
const DEPTH_MAX: usize = 40;
/// Nothing that is written here is larger; a sparse file may claim to be.
const FILE_MAX_BYTES: u64 = 512 << 20;

pub struct Secret {
    /// The secret, and ways to write it.
    forms: Vec<Vec<u8>>,
}

impl Secret {
    /// Whole, in halves, and encoded.
    pub fn new(text: &str) -> Self {
        let (first, second) = text.split_at(text.len() / 2);
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        // Wherever it stands in what was encoded, one of three is in there.
        let inner = (0..3).map(|skip| {
            let encoded = STANDARD.encode(&text.as_bytes()[skip..]);
            encoded[..encoded.len() - 4].to_owned()
        });
        let forms = [text.to_owned(), first.to_owned(), second.to_owned(), hex].into_iter().chain(inner);
        Self { forms: forms.map(String::into_bytes).collect() }
    }

    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| memmem::find(bytes, form).is_some())
    }

    /// Files below that have it. Links are not followed, devices and pipes not opened.
    pub fn files_with_it(&self, root: &Path) -> Result<Found> {
        let mut found = Found::default();
        self.look(root, 0, &mut found)?;
        Ok(found)
    }

    fn look(&self, path: &Path, depth: usize, found: &mut Found) -> Result<()> {
        // Running processes create and remove files during the walk.
        let Ok(kind) = fs::symlink_metadata(path) else { return Ok(()) };
        if self.is_in(path.as_os_str().as_encoded_bytes()) {
            found.hits.push(path.to_owned());
        }
        if kind.is_dir() && depth < DEPTH_MAX {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                self.look(&entry.path(), depth + 1, found)?;
            }
        } else if kind.is_file() && kind.len() <= FILE_MAX_BYTES {
            let Ok(bytes) = fs::read(path) else { return Ok(()) };
            found.files += 1;
            if self.is_in(&bytes) {
                found.hits.push(path.to_owned());
            }
        }
        Ok(())
    }

    /// Searches the arguments and environment of processes.
    pub fn processes_with_it(&self, pids: &[i32]) -> Found {
        let mut found = Found::default();
        for path in
            pids.iter().flat_map(|pid| ["environ", "cmdline"].map(|name| format!("/proc/{pid}/{name}")))
        {
            let Ok(bytes) = fs::read(&path) else { continue };
            found.files += 1;
            if self.is_in(&bytes) {
                found.hits.push(PathBuf::from(path));
            }
        }
        found
    }
}

/// How many were looked at, and which have it.
#[derive(Debug, Default)]
pub struct Found {
    pub files: usize,
    pub hits: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_however_it_is_written() -> Result<()> {
        let secret = Secret::new("sk-1234567890abcdef");
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("sub"))?;
        for (name, text) in [
            ("plain", "key=sk-1234567890abcdef;".to_owned()),
            ("half", "the key …7890abcdef".to_owned()),
            ("sub/base64", STANDARD.encode("user:sk-1234567890abcdef!")),
            ("nothing", "sk-".to_owned()),
        ] {
            fs::write(dir.path().join(name), text)?;
        }
        let found = secret.files_with_it(dir.path())?;
        let mut names: Vec<_> = found.hits.iter().filter_map(|path| path.file_name()).collect();
        names.sort_unstable();
        assert_eq!((found.files, names), (4, vec!["base64".as_ref(), "half".as_ref(), "plain".as_ref()]));
        Ok(())
    }
}
