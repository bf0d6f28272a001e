//! Puts the entries of an archive below a directory. Every path is resolved beneath that directory by the kernel: a link
//! that an archive made, or that the sandbox puts there meanwhile, leads nowhere else.
//!
//! An entry that cannot be put is left out, with its reason; what is wrong with the archive or the disk ends it.

use super::meter::Meter;
use crate::{
    FilesError, Workspace,
    limits::{CHUNK_BYTES, DIRECTORIES_MAX_BYTES, PATH_MAX_BYTES, SKIPPED_MAX},
    mkdir::{make_parents, mkdir},
    temporary::{Temporary, under_free_name},
    times::{set_modified, set_modified_below},
    workspace::Slot,
};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, renameat},
    sys::stat::{Mode, fchmod},
    unistd::{UnlinkatFlags, linkat, symlinkat, syncfs, unlinkat},
};
use protocol::files::{FilePath, FileTime, SkippedEntry, UnpackReport};
use std::{
    ffi::{CStr, OsStr},
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
};

#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    /// Only the permission bits are kept.
    pub mode: u32,
    pub modified: FileTime,
}

/// An entry by its kind.
pub enum Member<'a> {
    Directory,
    File {
        content: &'a mut dyn Read,
    },
    Symlink {
        target: &'a [u8],
    },
    /// Another name of a file of the archive.
    HardLink {
        target: &'a [u8],
    },
    /// What is never unpacked.
    Unsupported {
        reason: &'static str,
    },
}

pub struct Extractor<'a> {
    top: Workspace,
    meter: &'a Meter,
    report: UnpackReport,
    /// Directories whose mode and time are set at the end: until then files are put into them.
    directories: Vec<(FilePath, Attributes)>,
    directories_bytes: usize,
    buffer: Vec<u8>,
}

/// Why an entry was not put.
enum Trouble {
    /// It is left out, for this reason.
    Entry(String),
    /// The archive ends here.
    Archive(FilesError),
}

impl From<FilesError> for Trouble {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Invalid { .. }
            | FilesError::NotFound { .. }
            | FilesError::Exists { .. }
            | FilesError::NotAFile { .. }
            | FilesError::NotADirectory { .. }
            | FilesError::NotEmpty { .. }
            | FilesError::Outside { .. }
            | FilesError::Denied { .. }
            | FilesError::Precondition { .. }
            | FilesError::Range { .. }
            // Of a path that changes while it is resolved.
            | FilesError::TimedOut { .. } => Self::Entry(error.to_string()),
            FilesError::TooLarge { .. }
            | FilesError::TooMany { .. }
            | FilesError::DiskFull { .. }
            | FilesError::BodyCut(_)
            | FilesError::Cancelled
            | FilesError::Io { .. } => Self::Archive(error),
        }
    }
}

impl<'a> Extractor<'a> {
    pub fn new(top: Workspace, meter: &'a Meter) -> Self {
        let (report, buffer) = (UnpackReport::default(), vec![0; CHUNK_BYTES]);
        Self { top, meter, report, directories: vec![], directories_bytes: 0, buffer }
    }

    pub fn add(&mut self, name: &[u8], attributes: Attributes, member: Member<'_>) -> Result<(), FilesError> {
        self.meter.entry()?;
        let put = match path_of(name) {
            Ok(path) => self.put(&path, attributes, member),
            Err(reason) => Err(Trouble::Entry(reason.to_owned())),
        };
        match put {
            Ok(()) => Ok(()),
            Err(Trouble::Archive(error)) => Err(error),
            Err(Trouble::Entry(reason)) => {
                self.skip(name, reason);
                Ok(())
            }
        }
    }

    fn skip(&mut self, name: &[u8], reason: String) {
        self.report.skipped_count += 1;
        if self.report.skipped.len() < SKIPPED_MAX {
            let path = FilePath(name[..name.len().min(PATH_MAX_BYTES)].to_vec());
            self.report.skipped.push(SkippedEntry { path, reason });
        }
    }

    fn put(&mut self, path: &FilePath, attributes: Attributes, member: Member<'_>) -> Result<(), Trouble> {
        match member {
            Member::Directory => self.put_directory(path, attributes),
            Member::File { content } => self.put_file(path, attributes, content),
            Member::Symlink { target } => {
                let target = OsStr::from_bytes(target);
                let slot = self.slot(path)?;
                place(&slot, |name| symlinkat(target, &slot.parent, name))?;
                set_modified_below(&slot.parent, &slot.name, attributes.modified);
                self.report.symlinks += 1;
                Ok(())
            }
            Member::HardLink { target } => {
                let target = path_of(target).map_err(|reason| Trouble::Entry(reason.to_owned()))?;
                let existing = self.top.slot(&target)?;
                let slot = self.slot(path)?;
                // A link at the target's place is not followed.
                place(&slot, |name| {
                    linkat(&existing.parent, existing.name.as_c_str(), &slot.parent, name, AtFlags::empty())
                })?;
                self.report.files += 1;
                Ok(())
            }
            Member::Unsupported { reason } => Err(Trouble::Entry(reason.to_owned())),
        }
    }

    fn slot(&self, path: &FilePath) -> Result<Slot, FilesError> {
        make_parents(&self.top, path)?;
        self.top.slot(path)
    }

    fn put_directory(&mut self, path: &FilePath, attributes: Attributes) -> Result<(), Trouble> {
        // The directory that the archive is unpacked to keeps its own.
        if path.0.is_empty() {
            return Ok(());
        }
        mkdir(&self.top, path, Some(attributes.mode | 0o700))?;
        self.report.directories += 1;
        self.directories_bytes += path.0.len();
        if self.directories_bytes <= DIRECTORIES_MAX_BYTES {
            self.directories.push((path.clone(), attributes));
        }
        Ok(())
    }

    fn put_file(
        &mut self,
        path: &FilePath,
        attributes: Attributes,
        content: &mut dyn Read,
    ) -> Result<(), Trouble> {
        let slot = self.slot(path)?;
        let mut temporary = Temporary::new(&slot)?;
        loop {
            let count = content.read(&mut self.buffer);
            let count = count.map_err(|error| Trouble::Archive(self.meter.error(&error)))?;
            if count == 0 {
                break;
            }
            let written = temporary.file.write_all(&self.buffer[..count]);
            written.map_err(FilesError::io_at("write the file", path))?;
            self.report.bytes += count as u64;
        }
        temporary.finish_unsynced(attributes.mode, attributes.modified)?;
        temporary.place()?;
        self.report.files += 1;
        Ok(())
    }

    /// Gives directories their modes and times, and makes everything durable. Also after a failure: what was unpacked
    /// before it stays.
    pub fn finish(mut self) -> Result<UnpackReport, FilesError> {
        // The inner ones first: the mode of an outer one may forbid the way to them.
        for (path, attributes) in self.directories.drain(..).rev() {
            let Ok(directory) = self.top.open_directory(&path) else { continue };
            let _ = fchmod(&directory, Mode::from_bits_truncate(attributes.mode & 0o777));
            set_modified(&directory, attributes.modified);
        }
        let top = FilePath::default();
        let directory = self.top.open_directory(&top)?;
        syncfs(&directory).map_err(FilesError::at("write the files", &top))?;
        Ok(self.report)
    }
}

/// The path of an entry, without `.` and double slashes; the empty one is the top. These names are left out to say why;
/// the kernel would refuse them too.
fn path_of(name: &[u8]) -> Result<FilePath, &'static str> {
    if name.starts_with(b"/") {
        return Err("the path is absolute");
    }
    let names: Vec<&[u8]> =
        name.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect();
    if names.contains(&&b".."[..]) {
        return Err("the path has a `..`");
    }
    let path = names.join(&b'/');
    if path.len() > PATH_MAX_BYTES { Err("the path is too long") } else { Ok(FilePath(path)) }
}

/// Makes something under the name of a slot, in place of what has it, but for a directory.
fn place(slot: &Slot, make: impl Fn(&CStr) -> Result<(), Errno>) -> Result<(), FilesError> {
    let failed = || FilesError::at("make the link", &slot.path);
    match make(&slot.name) {
        Err(Errno::EEXIST) => {}
        made => return made.map_err(failed()),
    }
    let (name, ()) = under_free_name(|name| make(name)).map_err(failed())?;
    let renamed = renameat(&slot.parent, name.as_c_str(), &slot.parent, slot.name.as_c_str());
    // Two names of one file are not renamed onto each other: the first is still there.
    let _ = unlinkat(&slot.parent, name.as_c_str(), UnlinkatFlags::NoRemoveDir);
    renamed.map_err(failed())
}
