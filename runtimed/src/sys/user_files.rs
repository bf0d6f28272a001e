//! Writes files below the home as the sandbox's user. No link on the way is followed: a link there means that
//! the user keeps the file elsewhere, and is an error.

use super::fs_identity::{FsIdentityGuard, Identity, IdentityError};
use crate::core::agent_validation::is_below;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Name prefix of a file until it is complete.
const UNFINISHED: &str = ".slipway-unfinished";
const PATH_SHOWN_MAX_CHARS: usize = 200;

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("write {path:?} for the agent: {source}")]
    Io { path: String, source: io::Error },
    #[error("write {path:?} for the agent: a path below the home, without . and .., is needed")]
    Path { path: String },
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Writes each file, with the directories it needs. A file with the same content is not touched.
pub fn write(identity: Identity, home: &Path, files: &BTreeMap<String, String>) -> Result<(), WriteError> {
    if files.is_empty() {
        return Ok(());
    }
    let _user = FsIdentityGuard::enter(identity)?;
    for (path, text) in files {
        if !is_below(path) {
            return Err(WriteError::Path { path: shown(path) });
        }
        let failed = |errno: io::Error| WriteError::Io { path: shown(path), source: errno };
        write_one(home, Path::new(path), text).map_err(failed)?;
    }
    Ok(())
}

/// The path for a message, short enough to be escaped twice.
fn shown(path: &str) -> String {
    path.chars().take(PATH_SHOWN_MAX_CHARS).collect()
}

fn write_one(home: &Path, path: &Path, text: &str) -> io::Result<()> {
    let directory = parent(home, path)?;
    let Some(name) = path.file_name() else { return Err(Errno::EISDIR.into()) };
    if has_content(&directory, Path::new(name), text)? {
        return Ok(());
    }
    let unfinished = &unfinished(std::process::id());
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let remove = || unlinkat(&directory, unfinished.as_path(), UnlinkatFlags::NoRemoveDir).ok();
    // A file left by a killed writer with the same pid.
    remove();
    let mut file =
        File::from(openat(&directory, unfinished.as_path(), flags, Mode::from_bits_truncate(0o600))?);
    let written = file.write_all(text.as_bytes());
    let moved = written.and_then(|()| Ok(renameat(&directory, unfinished.as_path(), &directory, name)?));
    moved.inspect_err(|_| {
        remove();
    })
}

/// Each writer has its own name: two agents may be started at once.
fn unfinished(writer: u32) -> PathBuf {
    PathBuf::from(format!("{UNFINISHED}-{writer}"))
}

/// Opens the directory of a file, and creates it where it is missing.
fn parent(home: &Path, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut directory = nix::fcntl::open(home, flags, Mode::empty())?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        let part = Path::new(part.as_os_str());
        match mkdirat(&directory, part, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        directory = openat(&directory, part, flags, Mode::empty())?;
    }
    Ok(directory)
}

/// Whether a file has this content. Anything but a regular file is an error.
fn has_content(directory: &OwnedFd, name: &Path, text: &str) -> io::Result<bool> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let fd = match openat(directory, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::ENOENT) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    };
    let stat = fstat(&fd)?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(io::Error::other("the path exists and is not a regular file"));
    }
    if stat.st_size != text.len() as i64 {
        return Ok(false);
    }
    let mut there = Vec::new();
    File::from(fd).take(text.len() as u64 + 1).read_to_end(&mut there)?;
    Ok(there == text.as_bytes())
}

#[cfg(test)]
mod tests {
    //! These tests need root: only root may change its identity.

    use super::*;
    use nix::unistd::{Gid, Uid, chown};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    const USER: Identity = Identity { uid: Uid::from_raw(1000), gid: Gid::from_raw(1000) };

    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().expect("a directory");
        chown(home.path(), Some(USER.uid), Some(USER.gid)).expect("needs root");
        home
    }

    fn files(path: &str, text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(path.to_owned(), text.to_owned())])
    }

    #[test]
    fn a_file_is_written_as_the_user_and_only_when_it_is_another_one() {
        let home = home();
        let path = home.path().join(".config/agent/settings.json");
        let mut inode = 0;
        for (text, fresh) in [("one", true), ("one", false), ("two", true), ("", true)] {
            write(USER, home.path(), &files(".config/agent/settings.json", text)).expect("it may");
            let seen = fs::metadata(&path).expect("there");
            assert_eq!(fs::read_to_string(&path).expect("text"), text);
            assert_eq!((seen.uid(), seen.gid(), seen.mode() & 0o777), (1000, 1000, 0o600));
            assert_eq!(seen.ino() != inode, fresh, "{text}");
            inode = seen.ino();
        }
        assert_eq!(fs::metadata(home.path().join(".config")).expect("there").uid(), 1000);
    }

    #[test]
    fn another_writer_at_the_same_time_loses_nothing() {
        let home = home();
        let other = home.path().join(unfinished(std::process::id() + 1));
        fs::write(&other, "theirs").expect("room");
        write(USER, home.path(), &files("settings.json", "ours")).expect("it may");
        assert_eq!(fs::read_to_string(home.path().join("settings.json")).expect("text"), "ours");
        assert_eq!(fs::read_to_string(&other).expect("still there"), "theirs");
        assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 2, "ours is whole and nothing else");
    }

    #[test]
    fn what_is_in_the_way_is_an_error_and_nothing_is_written_elsewhere() {
        let home = home();
        let outside = tempfile::tempdir().expect("a directory");
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o777)).expect("mode");
        symlink(outside.path(), home.path().join("linked")).expect("link");
        symlink(outside.path().join("target"), home.path().join("link")).expect("link");
        fs::create_dir(home.path().join("directory")).expect("directory");
        fs::create_dir(home.path().join("of-root")).expect("directory");
        for path in ["linked/x", "link", "directory", "of-root/x", "/etc/x", "../x", "a/../../x", "", "."] {
            let error = write(USER, home.path(), &files(path, "x")).expect_err(path);
            assert!(error.to_string().starts_with("write"), "{path}: {error}");
        }
        assert_eq!(fs::read_dir(outside.path()).expect("readable").count(), 0);
    }
}
