//! Directories that cannot be read. Git lists nothing of them and goes on, so a checkpoint has nothing of them either.

use super::git::path;
use super::skipped::SkippedPaths;
use crate::limits::UNREADABLE_WALK_MAX;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Adds them to the skipped paths. Below ignored directories nothing has to be known.
pub fn add_to(skipped: &mut SkippedPaths, work_tree: &Path) {
    let mut directories = vec![Vec::new()];
    let mut looked = 0;
    while let Some(directory) = directories.pop() {
        looked += 1;
        let found = subdirectories(&work_tree.join(path(&directory)), &directory);
        match found {
            Ok(found) if looked + directories.len() + found.len() <= UNREADABLE_WALK_MAX => {
                directories.extend(found.into_iter().filter(|name| !skipped.contains(name)));
            }
            Ok(_) => return skipped.truncated = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) if directory.is_empty() => return skipped.truncated = true,
            Err(_) => drop(skipped.skipped.insert(directory)),
        }
    }
}

fn subdirectories(at: &Path, prefix: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(at)? {
        let entry = entry?;
        let own = entry.file_name();
        if own != ".git" && entry.file_type()?.is_dir() {
            found.push([prefix, own.as_bytes(), b"/"].concat());
        }
    }
    Ok(found)
}
