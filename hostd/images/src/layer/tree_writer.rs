//! Writes the entries of an archive below a directory.
//!
//! Every directory is opened from the top, beneath it and without symlinks (`openat2`), or was just created; names are
//! then used relative to it. The directory that was used last stays open: archives list the content of a directory
//! together.

mod entries;
mod parents;
mod remove;
mod whiteouts;

use super::{
    Refusal, UnpackError,
    attributes::{TreeForm, timestamps},
    entry_path::{EntryPath, Meaning},
    unpack::TreeCounts,
};
use crate::{
    limits::DIRECTORY_PATHS_MAX_BYTES,
    tar_reader::{Member, Mtime, TarReader},
};
use rustix::{
    fs::{Mode, OFlags, futimens, open},
    io::Errno,
};
use std::{
    io::BufRead,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub struct TreeWriter {
    root: OwnedFd,
    form: TreeForm,
    /// The directory that was used last, and its path.
    last: Option<(Vec<u8>, OwnedFd)>,
    /// Times of directories, which change with each entry below them and are set at the end.
    directory_times: Vec<(Vec<u8>, Mtime)>,
    directory_paths_bytes: usize,
    counts: TreeCounts,
}

impl TreeWriter {
    pub fn open(to: &Path, form: TreeForm) -> Result<Self, UnpackError> {
        let root = open(to, DIRECTORY, Mode::empty()).map_err(|error| UnpackError::write(b"", error))?;
        Ok(Self {
            root,
            form,
            last: None,
            directory_times: vec![],
            directory_paths_bytes: 0,
            counts: TreeCounts::default(),
        })
    }

    /// Writes one entry, with its content.
    pub fn write<R: BufRead>(
        &mut self,
        member: &Member,
        archive: &mut TarReader<R>,
    ) -> Result<(), UnpackError> {
        let refused = |refusal: Refusal| UnpackError::refused(&member.name, refusal);
        let path = EntryPath::parse(&member.name).map_err(refused)?;
        let meaning = match self.form {
            TreeForm::Layer => path.layer_meaning().map_err(refused)?,
            TreeForm::Home { .. } | TreeForm::Plain => path.plain_meaning(),
        };
        match meaning {
            Meaning::Root => self.write_root(member),
            Meaning::Entry { parent, name } => self.write_entry(&path, (parent, name), member, archive),
            Meaning::Whiteout { parent, name } => self.write_whiteout(parent, name),
            Meaning::Opaque { directory } => self.write_opaque(directory),
            Meaning::Reserved => {
                self.counts.skipped += 1;
                Ok(())
            }
        }
    }

    /// The bytes that a member takes of a quota. The holes of a file count, but for the home of a sandbox: it may have had
    /// them before, and they take no space.
    pub fn counted_bytes(&self, member: &Member) -> u64 {
        match (self.form, &member.sparse) {
            (TreeForm::Home { .. }, Some(parts)) => parts.iter().map(|part| part.bytes).sum(),
            (TreeForm::Home { .. } | TreeForm::Layer | TreeForm::Plain, Some(_) | None) => member.size,
        }
    }

    /// Sets the times of directories.
    pub fn finish(self) -> Result<TreeCounts, UnpackError> {
        for (path, mtime) in &self.directory_times {
            let directory = match self.open_beneath(path) {
                Ok(directory) => directory,
                // A later entry replaced it.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => return Err(UnpackError::write(path, error)),
            };
            futimens(directory.as_fd(), &timestamps(*mtime))
                .map_err(|error| UnpackError::write(path, error))?;
        }
        Ok(self.counts)
    }

    fn note_directory_time(&mut self, path: &[u8], mtime: Mtime) -> Result<(), UnpackError> {
        self.directory_paths_bytes += path.len() + size_of::<(Vec<u8>, Mtime)>();
        if self.directory_paths_bytes > DIRECTORY_PATHS_MAX_BYTES {
            return Err(UnpackError::DirectoryPaths);
        }
        self.directory_times.push((path.to_vec(), mtime));
        Ok(())
    }
}
