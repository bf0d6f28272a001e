//! Errors of the database. Their texts say what the operator should do next.

use hostd_core::{QuotaExceeded, TransitionRefused};
use protocol::api::SandboxId;
use rusqlite::{ErrorCode, ffi};
use std::{io, sync::Arc};

pub(super) type Result<T> = std::result::Result<T, StoreError>;

/// The database could not be opened.
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
    #[error("could not read the database")]
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

/// A read or a write failed. A write that failed changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full; writes go on by themselves when there is space")]
    Full,
    #[error("too many writes are waiting; try again")]
    Busy,
    #[error("the database is closed")]
    Closed,
    #[error("the operation failed because of a fault in hostd; see its log")]
    Broken,
    #[error(transparent)]
    Refused(#[from] TransitionRefused),
    #[error("no record with this id")]
    NotFound,
    #[error("a record with this id exists already")]
    Exists,
    #[error("sandbox {existing} has this owner and scope already")]
    ScopeTaken { existing: SandboxId },
    #[error("sandbox {existing} has the name {name:?} already; choose another, or replace it")]
    NameTaken { name: String, existing: SandboxId },
    #[error(transparent)]
    QuotaExceeded(Box<QuotaExceeded>),
    #[error("the database is damaged; stop hostd and run `hostd repair`")]
    Corrupt {
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// A row holds something this hostd never writes.
    #[error("row {id} of table {table} is invalid: {detail}")]
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

/// Turns an SQLite error into `could not {what}`.
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
    // SQLite reports a full disk under the shared memory file with a code of its own.
    if error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE) {
        return ErrorClass::Full;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ErrorClass::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorClass::Damage,
        _ => ErrorClass::Other,
    }
}

/// Returns whether a unique index rejected the row.
pub(super) fn is_unique_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(ffi::SQLITE_CONSTRAINT_UNIQUE)
}

/// Returns whether the primary key rejected the row.
pub(super) fn is_primary_key_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
}
