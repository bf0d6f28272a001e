//! Files, directories, symlinks and hard links.

use super::{EntryPath, Meaning, Refusal, TreeForm, TreeWriter, UnpackError, parents::make_directory};
use crate::{
    layer::attributes::{Attributes, timestamps},
    limits::ENTRY_PATH_MAX_BYTES,
    tar_reader::{Member, MemberKind, Segment, TarReader},
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, futimens, linkat, openat, statat, symlinkat},
    io::Errno,
};
use std::{
    fs::File,
    io::{BufRead, Seek, SeekFrom, Write},
    os::fd::{AsFd, BorrowedFd},
};

const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl TreeWriter {
    /// Applies the entry of the root, which exists already.
    pub(super) fn write_root(&mut self, member: &Member) -> Result<(), UnpackError> {
        if member.kind != MemberKind::Directory {
            return Err(UnpackError::refused(b"", Refusal::RootNotADirectory));
        }
        match self.form {
            TreeForm::Plain => Ok(()),
            TreeForm::Layer | TreeForm::Home { .. } => {
                let attributes = self.attributes(member)?;
                attributes.apply(self.root.as_fd(), b"")?;
                self.note_directory_time(b"", attributes.mtime)
            }
        }
    }

    /// Writes an entry named `at.1` into the directory `at.0`.
    pub(super) fn write_entry<R: BufRead>(
        &mut self,
        path: &EntryPath,
        at: (&[u8], &[u8]),
        member: &Member,
        archive: &mut TarReader<R>,
    ) -> Result<(), UnpackError> {
        match member.kind {
            MemberKind::File => self.write_file(at, member, archive),
            MemberKind::Directory => self.write_directory(path, at, member),
            MemberKind::Symlink => self.write_symlink(at, member),
            MemberKind::HardLink => self.write_hard_link(at, member),
            // Sandboxes mount a /dev of their own; a device 0:0 would be a whiteout.
            MemberKind::Device | MemberKind::Fifo | MemberKind::Other => {
                self.counts.skipped += 1;
                Ok(())
            }
        }
    }

    fn attributes<'a>(&mut self, member: &'a Member) -> Result<Attributes<'a>, UnpackError> {
        let attributes = Attributes::of(member, self.form)
            .map_err(|refusal| UnpackError::refused(&member.name, refusal))?;
        self.counts.owners_replaced += u64::from(attributes.is_owner_replaced);
        Ok(attributes)
    }

    fn write_file<R: BufRead>(
        &mut self,
        at: (&[u8], &[u8]),
        member: &Member,
        archive: &mut TarReader<R>,
    ) -> Result<(), UnpackError> {
        let attributes = self.attributes(member)?;
        let create = |parent: BorrowedFd<'_>, name: &[u8]| {
            openat(parent, name, NEW_FILE, Mode::RUSR | Mode::WUSR).map(File::from)
        };
        let mut file = self.create(at, create).map_err(|error| error.of(member))?;
        match &member.sparse {
            None => copy_content(archive, &mut file, u64::MAX, member)?,
            Some(segments) => copy_segments(archive, &mut file, segments, member)?,
        }
        attributes.apply(file.as_fd(), &member.name)?;
        futimens(&file, &timestamps(attributes.mtime))
            .map_err(|error| UnpackError::write(&member.name, error))?;
        self.counts.set_id_files += u64::from(attributes.is_set_id());
        Ok(())
    }

    fn write_directory(
        &mut self,
        path: &EntryPath,
        (parent, name): (&[u8], &[u8]),
        member: &Member,
    ) -> Result<(), UnpackError> {
        let attributes = self.attributes(member)?;
        let form = self.form;
        let directory = make_directory(form, self.directory(parent)?, name)
            .map_err(|error| UnpackError::write(&member.name, error))?;
        attributes.apply(directory.as_fd(), &member.name)?;
        self.remember(path.as_bytes(), directory);
        self.note_directory_time(path.as_bytes(), attributes.mtime)
    }

    fn write_symlink(&mut self, at: (&[u8], &[u8]), member: &Member) -> Result<(), UnpackError> {
        let target = member.link.as_slice();
        if target.is_empty() || target.len() > ENTRY_PATH_MAX_BYTES || target.contains(&0) {
            return Err(UnpackError::refused(&member.name, Refusal::SymlinkTarget));
        }
        let attributes = self.attributes(member)?;
        let create = |parent: BorrowedFd<'_>, name: &[u8]| {
            symlinkat(target, parent, name)?;
            attributes.apply_to_symlink(parent, name)
        };
        self.create(at, create).map_err(|error| error.of(member))
    }

    /// Links to a file or symlink that the same archive brought before.
    fn write_hard_link(&mut self, at: (&[u8], &[u8]), member: &Member) -> Result<(), UnpackError> {
        let refused = |refusal: Refusal| UnpackError::refused(&member.name, refusal);
        let target = EntryPath::parse(&member.link).map_err(refused)?;
        let meaning = match self.form {
            TreeForm::Layer => target.layer_meaning().map_err(refused)?,
            TreeForm::Home { .. } | TreeForm::Plain => target.plain_meaning(),
        };
        let Meaning::Entry { parent, name } = meaning else {
            return Err(refused(Refusal::LinkTargetMissing));
        };
        let missing = |error: Errno| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => refused(Refusal::LinkTargetMissing),
            error => UnpackError::write(&member.link, error),
        };
        let from = self.open_beneath(parent).map_err(missing)?;
        let stat = statat(&from, name, AtFlags::SYMLINK_NOFOLLOW).map_err(missing)?;
        if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink) {
            return Err(refused(Refusal::LinkTargetKind));
        }
        if self.is_same(at, &stat)? {
            return Ok(());
        }
        let link = |to: BorrowedFd<'_>, link: &[u8]| linkat(&from, name, to, link, AtFlags::empty());
        self.create(at, link).map_err(|error| match error {
            // The target lay below what the link replaced.
            CreateError::Create(Errno::NOENT) => refused(Refusal::LinkTargetMissing),
            error @ (CreateError::Parent(_) | CreateError::Create(_)) => error.of(member),
        })
    }

    /// Whether the name is already this file.
    fn is_same(&mut self, (parent, name): (&[u8], &[u8]), file: &Stat) -> Result<bool, UnpackError> {
        let stat = statat(self.directory(parent)?, name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(stat.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (file.st_dev, file.st_ino)))
    }

    /// Creates something in the directory `at.0`, and removes first what has its name.
    fn create<T>(
        &mut self,
        at: (&[u8], &[u8]),
        create: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, CreateError> {
        let (parent, name) = at;
        let directory = self.directory(parent).map_err(CreateError::Parent)?;
        match create(directory, name) {
            Err(Errno::EXIST) => {}
            made => return made.map_err(CreateError::Create),
        }
        self.remove(parent, name).map_err(CreateError::Create)?;
        create(self.directory(parent).map_err(CreateError::Parent)?, name).map_err(CreateError::Create)
    }
}

enum CreateError {
    Parent(UnpackError),
    Create(Errno),
}

impl CreateError {
    fn of(self, member: &Member) -> UnpackError {
        match self {
            Self::Parent(error) => error,
            Self::Create(error) => UnpackError::write(&member.name, error),
        }
    }
}

/// Copies content of the current member, `max` bytes of it at most.
fn copy_content<R: BufRead>(
    archive: &mut TarReader<R>,
    file: &mut File,
    max: u64,
    member: &Member,
) -> Result<(), UnpackError> {
    let mut left = max;
    while left > 0 {
        let bytes = archive.content()?;
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        if length == 0 {
            break;
        }
        file.write_all(&bytes[..length]).map_err(|error| UnpackError::write(&member.name, error))?;
        archive.consume(length);
        left -= length as u64;
    }
    Ok(())
}

/// Copies each part of a sparse file to its place.
fn copy_segments<R: BufRead>(
    archive: &mut TarReader<R>,
    file: &mut File,
    segments: &[Segment],
    member: &Member,
) -> Result<(), UnpackError> {
    let failed = |error: std::io::Error| UnpackError::write(&member.name, error);
    for segment in segments {
        file.seek(SeekFrom::Start(segment.offset)).map_err(failed)?;
        copy_content(archive, file, segment.bytes, member)?;
    }
    file.set_len(member.size).map_err(failed)
}
