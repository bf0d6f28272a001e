//! Why an archive was not unpacked.

use crate::{
    QuotaExceeded,
    limits::{
        DIRECTORY_PATHS_MAX_BYTES, ENTRY_NAME_MAX_BYTES, ENTRY_PATH_MAX_BYTES, ENTRY_XATTRS_MAX_BYTES,
        IMAGE_DEPTH_MAX, SHOWN_NAME_MAX_BYTES,
    },
    tar_reader::TarError,
};
use std::{error::Error, fmt::Write, io};

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error(transparent)]
    Archive(#[from] TarError),
    #[error("{name} {refusal}")]
    Refused { name: String, refusal: Refusal },
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    #[error("its directories have names of more than {} MiB", DIRECTORY_PATHS_MAX_BYTES >> 20)]
    DirectoryPaths,
    #[error("{name} could not be written")]
    Write { name: String, source: io::Error },
}

/// Why one entry is not accepted; reads after its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("leads out of the archive")]
    LeadsOut,
    #[error("has a name with a NUL byte")]
    NulByte,
    #[error("has a name of more than {ENTRY_NAME_MAX_BYTES} bytes")]
    NameTooLong,
    #[error("has a path of more than {ENTRY_PATH_MAX_BYTES} bytes")]
    PathTooLong,
    #[error("is nested deeper than {IMAGE_DEPTH_MAX} directories")]
    TooDeep,
    #[error("is the root, but not a directory")]
    RootNotADirectory,
    #[error("has a path through a symlink")]
    ThroughSymlink,
    #[error("has a path through something that is not a directory")]
    ThroughFile,
    #[error("is a whiteout without a name")]
    WhiteoutName,
    #[error("has a path through a whiteout")]
    ThroughWhiteout,
    #[error("is a hard link to something that is not in the same archive")]
    LinkTargetMissing,
    #[error("is a hard link to something that is neither a file nor a symlink")]
    LinkTargetKind,
    #[error("is a symlink without a target, or with one of more than {ENTRY_PATH_MAX_BYTES} bytes")]
    SymlinkTarget,
    #[error("has extended attributes of more than {ENTRY_XATTRS_MAX_BYTES} bytes")]
    XattrsTooLarge,
    #[error("has an extended attribute that is not valid")]
    XattrInvalid,
}

impl UnpackError {
    /// Whether the disk, or the quota of hostd on it, is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Write { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Archive(_) | Self::Refused { .. } | Self::Quota(_) | Self::DirectoryPaths => false,
        }
    }

    pub(super) fn refused(name: &[u8], refusal: Refusal) -> Self {
        Self::Refused { name: shown(name), refusal }
    }

    pub(super) fn write(name: &[u8], source: impl Into<io::Error>) -> Self {
        Self::Write { name: shown(name), source: source.into() }
    }
}

impl From<io::Error> for UnpackError {
    fn from(error: io::Error) -> Self {
        Self::Archive(TarError::Read(error))
    }
}

impl From<UnpackError> for io::Error {
    /// Keeps the kind of the cause, and its text.
    fn from(error: UnpackError) -> Self {
        let kind = match &error {
            UnpackError::Write { source, .. } | UnpackError::Archive(TarError::Read(source)) => source.kind(),
            UnpackError::Archive(_) => io::ErrorKind::InvalidData,
            UnpackError::Refused { .. } | UnpackError::Quota(_) | UnpackError::DirectoryPaths => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, with_causes(&error))
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("a string takes everything");
        cause = error.source();
    }
    text
}

/// Returns a name of an archive for people: escaped and bounded.
pub fn shown(name: &[u8]) -> String {
    let name = if name.is_empty() { b"/" } else { name };
    match name.split_at_checked(SHOWN_NAME_MAX_BYTES) {
        Some((start, [_, ..])) => format!("{}…", start.escape_ascii()),
        Some(_) | None => match std::str::from_utf8(name) {
            Ok(text) => text.escape_debug().to_string(),
            Err(_) => name.escape_ascii().to_string(),
        },
    }
}
