//! Why a backup was not made, or could not be read.

use crate::reconcile::FleetError;
use hostd_drivers::DriverError;
use hostd_images::TarError;
use hostd_store::{OpenError, StoreError};
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error("could not {what}")]
    Io {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("could not set the encryption up")]
    Encrypt(#[source] age::EncryptError),
}

impl BackupError {
    pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        Self::Fleet(error.into())
    }
}

/// Nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("the passphrase is wrong, or none of the identities is a recipient of the backup")]
    WrongKey,
    #[error("the backup is encrypted {0}")]
    OtherKey(&'static str),
    #[error("it is not a backup: it is not encrypted with age")]
    NotEncrypted,
    #[error("the backup is damaged or cut short ({0})")]
    Damaged(String),
    #[error("the backup has format {found}, and this hostd reads format {known}: use a newer hostd")]
    Format { found: u32, known: u32 },
    #[error(
        "the backup has a database of schema {found}, and this hostd knows up to {known}: use a newer hostd"
    )]
    Schema { found: u32, known: u32 },
    #[error("{0} is not empty: restore into a directory that is not there yet, or move this one away")]
    NotEmpty(String),
    #[error("a hostd runs on {0}: stop it, and move the directory away")]
    InUse(String),
    #[error(
        "{0} is a mount point, in whose place no directory can be put: mount the disk one directory higher, or name a \
         directory below it as data_dir"
    )]
    MountPoint(String),
    #[error("the disk is full: nothing was restored")]
    DiskFull,
    #[error("could not {what}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error("could not restore the files of {id}")]
    Files {
        id: String,
        #[source]
        source: DriverError,
    },
    #[error("could not restore the database")]
    Database(#[source] OpenError),
}

impl RestoreError {
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| match is_full(&source) {
            true => Self::DiskFull,
            false => Self::Io { what: what.into(), source },
        }
    }

    pub fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged(why.into())
    }

    pub fn files(id: String, source: DriverError) -> Self {
        let full = match &source {
            DriverError::DiskFull | DriverError::NoDiskRoom { .. } => true,
            DriverError::Io { source, .. } => is_full(source),
            DriverError::Refused { .. }
            | DriverError::Unavailable { .. }
            | DriverError::ImageMissing { .. }
            | DriverError::NameTaken { .. }
            | DriverError::Conflict { .. }
            | DriverError::MemoryInUse { .. }
            | DriverError::Failed { .. }
            | DriverError::TimedOut { .. }
            | DriverError::Damaged { .. }
            | DriverError::OtherPidNamespace { .. } => false,
        };
        if full { Self::DiskFull } else { Self::Files { id, source } }
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

/// Every error while a backup is read means that it is not whole: files of this machine are opened before.
impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<TarError> for RestoreError {
    fn from(error: TarError) -> Self {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self::Damaged(text)
    }
}

impl From<OpenError> for RestoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Full | OpenError::Store(StoreError::Full) => Self::DiskFull,
            OpenError::Newer { found, known } => Self::Schema { found, known },
            error @ (OpenError::Corrupt { .. }
            | OpenError::Io { .. }
            | OpenError::Sqlite { .. }
            | OpenError::Store(_)) => Self::Database(error),
        }
    }
}
