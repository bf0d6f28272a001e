//! Matches the names of entries.

use crate::{FilesError, limits::PATTERN_MAX_BYTES};
use globset::{GlobBuilder, GlobMatcher};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

pub struct NameMatcher {
    glob: GlobMatcher,
    /// Whether the path is matched, not only its last name.
    of_path: bool,
}

impl NameMatcher {
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, FilesError> {
        if pattern.len() > PATTERN_MAX_BYTES {
            return Err(FilesError::invalid(format!("name: at most {PATTERN_MAX_BYTES} bytes")));
        }
        let of_path = pattern.contains('/');
        // A slash at its begin is the top of the search.
        let glob = GlobBuilder::new(pattern.strip_prefix('/').unwrap_or(pattern))
            .case_insensitive(ignore_case)
            .literal_separator(true)
            .build()
            .map_err(|error| FilesError::invalid(format!("name: {error}")))?;
        Ok(Self { glob: glob.compile_matcher(), of_path })
    }

    /// `relative` is the path of an entry below the top of the search.
    pub fn matches(&self, relative: &[u8]) -> bool {
        let name = relative.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let bytes = if self.of_path { relative } else { name };
        self.glob.is_match(Path::new(OsStr::from_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_a_slash_matches_the_path() {
        let table = [
            ("*.rs", "src/deep/main.rs", true),
            ("*.rs", "src/main.rs.bak", false),
            ("main*", "main/other", false),
            ("src/*.rs", "src/main.rs", true),
            ("src/*.rs", "src/deep/main.rs", false),
            ("src/**/*.rs", "src/deep/main.rs", true),
            ("/src/*", "src/a", true),
            ("/a", "b/a", false),
            ("{a,b}?", "x/b1", true),
        ];
        for (pattern, path, expected) in table {
            let matcher = NameMatcher::new(pattern, false).unwrap();
            assert_eq!(matcher.matches(path.as_bytes()), expected, "{pattern} {path}");
        }
        assert!(NameMatcher::new("READ*", true).unwrap().matches(b"x/readme.md"));
        assert!(NameMatcher::new("*.\u{e9}", false).unwrap().matches(b"\xff.\xc3\xa9"));
        for wrong in ["[", "{a", &"a".repeat(PATTERN_MAX_BYTES + 1)] {
            assert!(NameMatcher::new(wrong, false).is_err(), "{wrong}");
        }
    }
}
