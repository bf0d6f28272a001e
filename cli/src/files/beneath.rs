//! Paths below a directory of this machine whose names come from elsewhere: never through a link, never out of it.

use super::workspace_path::os_name;
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// A directory of this machine.
#[derive(Debug, Clone)]
pub struct Beneath {
    root: PathBuf,
}

/// Returns the names of a relative path; none where it is absolute, leads up, or is empty.
pub fn relative_names(path: &[u8]) -> Option<Vec<OsString>> {
    if path.starts_with(b"/") || path.contains(&0) {
        return None;
    }
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let names: Vec<OsString> = names.map(os_name).collect();
    let plain = !names.is_empty() && names.iter().all(|name| name != "..");
    plain.then_some(names)
}

/// Returns whether the target of a link stays below the directory that `link` is relative to, read as text: the link
/// is never followed.
pub fn link_stays_beneath(link: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return false;
    }
    let parents = link.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).count();
    let mut depth = parents.saturating_sub(1);
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return false,
            },
            _ => depth += 1,
        }
    }
    true
}

impl Beneath {
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a relative one, whose parents exist afterwards and are directories, not links.
    pub fn prepare(&self, relative: &[u8]) -> io::Result<PathBuf> {
        self.resolve(relative, true)
    }

    /// The same without making anything: an error where a parent is missing or no directory.
    pub fn find(&self, relative: &[u8]) -> io::Result<PathBuf> {
        self.resolve(relative, false)
    }

    fn resolve(&self, relative: &[u8], make: bool) -> io::Result<PathBuf> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let names = relative_names(relative).ok_or_else(|| refused("the name leads out of the directory"))?;
        let mut path = self.root.clone();
        let (last, parents) = names.split_last().ok_or_else(|| refused("the name is empty"))?;
        for name in parents {
            path.push(name);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(refused("it lies below something that is no directory")),
                Err(error) if error.kind() == io::ErrorKind::NotFound && make => fs::create_dir(&path)?,
                Err(error) => return Err(error),
            }
        }
        path.push(last);
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_may_point_to_its_own_tree_only() {
        let table = [
            ("a", "b", true),
            ("a", "b/c", true),
            ("a/b", "../c", true),
            ("a/b", "../../c", false),
            ("a", "..", false),
            ("a", "b/../../c", false),
            ("a/b/c", "../../d/../e", true),
            ("a", "/etc/passwd", false),
            ("a", "", false),
        ];
        for (link, target, stays) in table {
            assert_eq!(link_stays_beneath(link.as_bytes(), target.as_bytes()), stays, "{link} -> {target}");
        }
    }

    #[test]
    fn nothing_is_reached_through_a_link_or_above() {
        let directory = tempfile::tempdir().expect("a directory");
        let outside = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        fs::create_dir(&root).expect("made");
        std::os::unix::fs::symlink(outside.path(), root.join("link")).expect("made");
        fs::write(root.join("file"), "").expect("written");
        let beneath = Beneath::new(&root);
        for bad in ["../x", "/etc/x", "a/../../x", "link/x", "file/x", "", ".", "a\0b"] {
            assert!(beneath.prepare(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(beneath.prepare(b"a/b/./c").expect("a path"), root.join("a/b/c"));
        assert!(root.join("a/b").is_dir() && !root.join("a/b/c").exists());
        // The link itself may be replaced or removed; it is only not followed.
        assert_eq!(beneath.find(b"link").expect("a path"), root.join("link"));
        assert!(beneath.find(b"missing/x").is_err());
        assert_eq!(fs::read_dir(outside.path()).expect("a directory").count(), 0);
    }
}
