//! The content of a file that is about to be restored, beside the app: it is verified and complete before it is moved to its
//! place.

use super::git::{Git, GitError, path};
use super::repository;
use super::tree::{TreeEntryKind, TreeFile};
use super::verify;
use crate::limits::CHECKPOINT_FILE_MAX_BYTES;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub struct Staging {
    root: PathBuf,
}

/// A file to stage: what it is, and the permissions of the one in its place.
pub struct Wanted<'a> {
    pub name: &'a [u8],
    pub file: &'a TreeFile,
    pub mode: Option<u32>,
}

/// The staged form of a file.
enum Staged {
    File(BufWriter<File>),
    Target(Vec<u8>),
}

impl Staging {
    /// The directory tells PID 1 that files are being changed. On a full disk it is made once there is space.
    pub fn new(git: &Git) -> Self {
        let staging = Self { root: repository::staging(git) };
        staging.clear();
        let _ = std::fs::create_dir(&staging.root);
        staging
    }

    fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }

    /// Stages one file after the other, and hands each on.
    pub fn each(
        &self,
        git: &Git,
        wanted: &[Wanted<'_>],
        mut install: impl FnMut(&OwnedFd, &Path, &[u8]),
    ) -> Result<(), GitError> {
        if wanted.is_empty() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.root).map_err(GitError::io("make a directory for files"))?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let directory = open(&self.root, flags, Mode::empty())
            .map_err(|error| GitError::io("open the directory of files")(error.into()))?;
        let objects: Vec<&str> = wanted.iter().map(|each| each.file.object.as_str()).collect();
        let open =
            |at: usize| self.open(at, &wanted[at]).map_err(GitError::io("store a file of the checkpoint"));
        verify::read(git, &objects, open, |at, staged| {
            self.end(at, &wanted[at], staged).map_err(GitError::io("store a file of the checkpoint"))?;
            install(&directory, &Self::name(at), wanted[at].name);
            Ok(())
        })
    }

    fn name(at: usize) -> PathBuf {
        PathBuf::from(at.to_string())
    }

    fn open(&self, at: usize, wanted: &Wanted<'_>) -> io::Result<Staged> {
        let executable = match wanted.file.kind {
            TreeEntryKind::Link => return Ok(Staged::Target(Vec::new())),
            TreeEntryKind::File { executable } => executable,
        };
        let mode = if executable { 0o777 } else { 0o666 };
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(self.path(at))?;
        Ok(Staged::File(BufWriter::new(file)))
    }

    fn end(&self, at: usize, wanted: &Wanted<'_>, staged: Staged) -> io::Result<()> {
        match staged {
            Staged::Target(target) => std::os::unix::fs::symlink(path(&target), self.path(at)),
            Staged::File(file) => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                match (wanted.mode, wanted.file.kind) {
                    (Some(mode), TreeEntryKind::File { executable }) => {
                        file.set_permissions(Permissions::from_mode(with_execute(mode, executable)))
                    }
                    (None, _) | (_, TreeEntryKind::Link) => Ok(()),
                }
            }
        }
    }

    fn path(&self, at: usize) -> PathBuf {
        self.root.join(Self::name(at))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Target(target) if (target.len() + bytes.len()) as u64 > CHECKPOINT_FILE_MAX_BYTES => {
                Err(io::ErrorKind::FileTooLarge.into())
            }
            Self::Target(target) => target.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Target(_) => Ok(()),
        }
    }
}

/// The permissions of a file, executable by those who may read it or by none; its owner can read it.
fn with_execute(mode: u32, executable: bool) -> u32 {
    let readable = (mode & 0o666) | 0o400;
    if executable { readable | (readable & 0o444) >> 2 } else { readable }
}
