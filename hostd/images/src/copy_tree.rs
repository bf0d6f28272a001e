//! Copies a directory into an image: files, directories and symlinks, nothing else. Symlinks are not
//! followed.

use crate::{TreeQuota, limits::IMAGE_DEPTH_MAX};
use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// Copies the tree of an image; returns its size in bytes.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<u64> {
    copy_tree_within(from, to, TreeQuota::of_image())
}

/// Copies a tree of limited size.
pub fn copy_tree_within(from: &Path, to: &Path, mut quota: TreeQuota) -> io::Result<u64> {
    copy_below(from, to, 0, &mut quota)?;
    Ok(quota.used_bytes())
}

fn copy_below(from: &Path, to: &Path, depth: usize, quota: &mut TreeQuota) -> io::Result<()> {
    if depth > IMAGE_DEPTH_MAX {
        return Err(io::Error::other(format!("nested deeper than {IMAGE_DEPTH_MAX} directories")));
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target, meta) = (entry.path(), to.join(entry.file_name()), entry.metadata()?);
        quota.take(if meta.is_file() { meta.len() } else { 0 })?;
        let kind = meta.file_type();
        if kind.is_dir() {
            fs::create_dir(&target)?;
            copy_below(&source, &target, depth + 1, quota)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
            continue;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        } else {
            continue;
        }
        // As with archives: on the host the files belong to root, and every user may reach them.
        fs::set_permissions(&target, fs::Permissions::from_mode(meta.permissions().mode() & 0o1775))?;
    }
    Ok(())
}
