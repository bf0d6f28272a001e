//! Removes trees that a sandbox filled: symlinks are not followed, and no depth, number of entries or mode
//! prevents the removal.

use super::files::errno;
use super::limits::TREE_DEPTH_MAX;
use nix::{
    dir::{Dir, Type},
    errno::Errno,
    fcntl::{OFlag, renameat},
    sys::stat::Mode,
    unistd::{UnlinkatFlags, unlinkat},
};
use std::{
    ffi::CString,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Renames a directory into the trash, so that it disappears atomically. `None` when there was none.
pub fn move_to_trash(path: &Path, trash: &Path) -> io::Result<Option<PathBuf>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let target = trash.join(format!("{name}-{}", ulid::Ulid::generate().to_string().to_ascii_lowercase()));
    match std::fs::rename(path, &target) {
        Ok(()) => Ok(Some(target)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file or a tree; a no-op when there is none. Takes long for a large tree; blocks.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let parent =
        Dir::open(path.parent().unwrap_or(Path::new("/")), DIRECTORY, Mode::empty()).map_err(errno)?;
    let name = CString::new(name.as_encoded_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    match unlinkat(&parent, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(()),
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(error) => return Err(errno(error)),
    }
    let mut moved = 0;
    // Directories beyond the depth limit were moved up and are removed in the next round.
    loop {
        let before = moved;
        // Opened anew: btrfs lists what was there when a directory was opened or rewound.
        let mut top = open(&parent, &name).map_err(errno)?;
        empty_dir(&mut top, &mut moved)?;
        if moved == before {
            break;
        }
    }
    unlinkat(&parent, name.as_c_str(), UnlinkatFlags::RemoveDir).map_err(errno)
}

const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

fn open(parent: &Dir, name: &CString) -> Result<Dir, Errno> {
    Dir::openat(parent, name.as_c_str(), DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty())
}

/// A directory on the way down, and its subdirectories that are left.
struct Level {
    dir: Dir,
    name: CString,
    subdirs: Vec<CString>,
}

/// Removes everything below `top`; directories beyond the depth limit are moved to `top`.
fn empty_dir(top: &mut Dir, moved: &mut u64) -> io::Result<()> {
    let mut subdirs = unlink_files(top).map_err(errno)?;
    while let Some(first) = subdirs.pop() {
        let mut levels: Vec<Level> = vec![enter(top, first).map_err(errno)?];
        loop {
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { break };
            match level.subdirs.pop() {
                Some(name) if depth < TREE_DEPTH_MAX => {
                    let next = enter(&level.dir, name).map_err(errno)?;
                    levels.push(next);
                }
                Some(name) => {
                    *moved += 1;
                    move_to_top(&level.dir, &name, top, *moved).map_err(errno)?;
                }
                None => {
                    let Some(done) = levels.pop() else { break };
                    let parent = levels.last().map_or(&*top, |level| &level.dir);
                    unlinkat(parent, done.name.as_c_str(), UnlinkatFlags::RemoveDir).map_err(errno)?;
                }
            }
        }
    }
    Ok(())
}

fn enter(parent: &Dir, name: CString) -> Result<Level, Errno> {
    let mut dir = open(parent, &name)?;
    let subdirs = unlink_files(&mut dir)?;
    Ok(Level { dir, name, subdirs })
}

/// Names held in memory.
const NAMES_AT_ONCE: usize = 4096;

/// Moves a directory to the top under an unused name.
fn move_to_top(from: &Dir, name: &CString, top: &Dir, number: u64) -> Result<(), Errno> {
    let target = format!(".slipway-lifted-{number}");
    match renameat(from, name.as_c_str(), top, target.as_str()) {
        // The name exists: use a random one.
        Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => {
            let other = format!("{target}-{}", ulid::Ulid::generate());
            renameat(from, name.as_c_str(), top, other.as_str())
        }
        done => done,
    }
}

/// Unlinks all files of a directory and returns its subdirectories. In batches: a sandbox can create millions
/// of names.
fn unlink_files(dir: &mut Dir) -> Result<Vec<CString>, Errno> {
    loop {
        let (subdirs, more) = unlink_some(dir)?;
        if !more {
            return Ok(subdirs);
        }
    }
}

/// Unlinks one batch; the flag says whether files may be left.
fn unlink_some(dir: &mut Dir) -> Result<(Vec<CString>, bool), Errno> {
    let (mut names, mut subdirs) = (vec![], vec![]);
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() == Some(Type::Directory) {
            subdirs.push(name.to_owned());
        } else {
            names.push(name.to_owned());
        }
        if names.len() == NAMES_AT_ONCE {
            break;
        }
    }
    let more = names.len() == NAMES_AT_ONCE;
    for name in names {
        match unlinkat(dir.as_fd(), name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            // The file system did not report the type.
            Err(Errno::EISDIR) => subdirs.push(name),
            Err(error) => return Err(error),
        }
    }
    Ok((subdirs, more))
}

/// The entries that an earlier hostd left in the trash. Call it before anything new is moved there.
pub fn trash_entries(trash: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(trash)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::mkdirat;

    #[test]
    fn symlinks_are_removed_and_not_followed() {
        let temp = tempfile::tempdir().expect("a directory");
        let outside = temp.path().join("outside");
        std::fs::create_dir_all(outside.join("kept")).expect("made");
        let tree = temp.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).expect("made");
        std::os::unix::fs::symlink(&outside, tree.join("a/link")).expect("linked");
        std::os::unix::fs::symlink(&outside, tree.join("a/.slipway-lifted-1")).expect("linked");
        remove_tree(&tree).expect("removed");
        assert!(!tree.exists() && outside.join("kept").exists());
        // A symlink in place of the tree itself.
        std::os::unix::fs::symlink(&outside, &tree).expect("linked");
        remove_tree(&tree).expect("removed");
        assert!(outside.join("kept").exists());
        remove_tree(&tree).expect("nothing there is fine");
    }

    #[test]
    fn more_names_than_one_batch_are_removed() {
        let temp = tempfile::tempdir().expect("a directory");
        let tree = temp.path().join("tree");
        std::fs::create_dir_all(tree.join("below")).expect("made");
        std::fs::write(tree.join("file"), "").expect("written");
        for n in 0..=NAMES_AT_ONCE {
            std::fs::hard_link(tree.join("file"), tree.join(n.to_string())).expect("linked");
        }
        remove_tree(&tree).expect("removed");
        assert!(!tree.exists());
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let temp = tempfile::tempdir().expect("a directory");
        let tree = temp.path().join("tree");
        std::fs::create_dir(&tree).expect("made");
        let mut dir = Dir::open(&tree, DIRECTORY, Mode::empty()).expect("open");
        for _ in 0..2000 {
            mkdirat(&dir, "dddddddddd", Mode::from_bits_truncate(0o0)).expect("made");
            dir = open(&dir, &c"dddddddddd".to_owned()).expect("root may enter");
        }
        drop(dir);
        remove_tree(&tree).expect("removed");
        assert!(!tree.exists());
    }
}
