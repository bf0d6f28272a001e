//! What can go wrong with the database, as values. The text says what to do next.

use crate::core::TransitionRefused;
use protocol::api::SandboxId;
use rusqlite::{ErrorCode, ffi};
use std::{io, sync::Arc};

pub(super) type Result<T> = std::result::Result<T, StoreError>;

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database has schema {found} and this hostd knows up to {known}: use the newer hostd")]
    Newer { found: u32, known: u32 },
    #[error("the database is damaged ({detail}): stop hostd and run `hostd repair`")]
    Corrupt { detail: String },
    #[error("the disk is full: free some space and start hostd again")]
    Full,
    #[error("could not {what}")]
    Io {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("could not {what}")]
    Sqlite {
        what: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    #[error("could not read what is in the database")]
    Store(#[source] StoreError),
}

impl OpenError {
    pub(super) fn sqlite(what: &'static str, source: rusqlite::Error) -> Self {
        match classify(&source) {
            ErrorClass::Full => Self::Full,
            ErrorClass::Damage => Self::Corrupt { detail: source.to_string() },
            ErrorClass::Other => Self::Sqlite { what, source },
        }
    }
}

/// Why a read or a write failed. A write that failed changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full; writes go on by themselves when there is space")]
    Full,
    #[error("too many writes are waiting; try again")]
    Busy,
    #[error("the database is closed")]
    Closed,
    #[error("the work was cut off by a fault in hostd; see its log")]
    Broken,
    #[error(transparent)]
    Refused(#[from] TransitionRefused),
    #[error("there is no such record")]
    NotFound,
    #[error("there is a record with this id already")]
    Exists,
    #[error("sandbox {existing} has this owner and scope already")]
    ScopeTaken { existing: SandboxId },
    #[error("the database is damaged; stop hostd and run `hostd repair`")]
    Corrupt {
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// What is in the database is not what this hostd writes.
    #[error("row {id} of table {table} makes no sense: {detail}")]
    Row { table: &'static str, id: String, detail: String },
    #[error("{what} does not fit into the database")]
    Unfit { what: &'static str },
    #[error("could not {what}")]
    Sqlite {
        what: &'static str,
        #[source]
        source: Arc<rusqlite::Error>,
    },
}

impl StoreError {
    pub(super) fn sqlite(what: &'static str, source: rusqlite::Error) -> Self {
        match classify(&source) {
            ErrorClass::Full => Self::Full,
            ErrorClass::Damage => Self::Corrupt { source: Arc::new(source) },
            ErrorClass::Other => Self::Sqlite { what, source: Arc::new(source) },
        }
    }
}

/// Makes `could not {what}` of an error of SQLite.
pub(super) trait During<T> {
    fn during(self, what: &'static str) -> Result<T>;
}

impl<T> During<T> for rusqlite::Result<T> {
    fn during(self, what: &'static str) -> Result<T> {
        self.map_err(|source| StoreError::sqlite(what, source))
    }
}

enum ErrorClass {
    Full,
    Damage,
    Other,
}

fn classify(error: &rusqlite::Error) -> ErrorClass {
    // The shared memory beside the log grows too, and says it with a code of its own.
    if error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE) {
        return ErrorClass::Full;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ErrorClass::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorClass::Damage,
        _ => ErrorClass::Other,
    }
}

/// Whether a row was refused because another one has the same values in a unique index.
pub(super) fn is_unique_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(ffi::SQLITE_CONSTRAINT_UNIQUE)
}

/// Whether a row was refused because there is one with its id.
pub(super) fn is_primary_key_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
}
