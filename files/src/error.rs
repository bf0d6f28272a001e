//! Why a verb was not performed, as a value; [`FilesFailure`] is the same on the wire.

use nix::errno::Errno;
use protocol::files::{FilePath, FilesErrorCode, FilesFailure};
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("{message}")]
    Invalid { message: String },
    #[error("no file or directory with this path")]
    NotFound { path: FilePath },
    #[error("this path exists already")]
    Exists { path: FilePath },
    #[error("not a regular file")]
    NotAFile { path: FilePath },
    #[error("not a directory")]
    NotADirectory { path: FilePath },
    #[error("the directory is not empty; delete it with recursive=true")]
    NotEmpty { path: FilePath },
    #[error("the path, or a link on it, leads out of the workspace")]
    Outside { path: FilePath },
    #[error("the sandbox's user may not do this")]
    Denied { path: FilePath },
    #[error("the file has changed, or is not there: read it again")]
    Precondition { path: FilePath },
    #[error("the range is beyond the {size} bytes of the file")]
    Range { path: FilePath, size: u64 },
    #[error("{message}")]
    TooLarge { message: String },
    #[error("{message}")]
    TooMany { message: String },
    #[error("the workspace is full")]
    DiskFull { path: FilePath },
    #[error("{message}")]
    TimedOut { message: String },
    #[error("the body ended too early")]
    BodyCut(#[source] io::Error),
    /// The caller is gone, or does not take the bytes.
    #[error("the caller is gone")]
    Cancelled,
    #[error("could not {what}")]
    Io {
        what: &'static str,
        path: FilePath,
        #[source]
        source: io::Error,
    },
}

impl FilesError {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into() }
    }

    /// Maps an error of the kernel, for `map_err`. `what` reads after "could not".
    pub fn at<'a>(what: &'static str, path: &'a FilePath) -> impl FnOnce(Errno) -> Self + 'a {
        move |errno| Self::of(errno, what, path)
    }

    /// As [`Self::at`], for errors of the standard library.
    pub fn io_at<'a>(what: &'static str, path: &'a FilePath) -> impl FnOnce(io::Error) -> Self + 'a {
        move |error| match error.raw_os_error() {
            Some(number) => Self::of(Errno::from_raw(number), what, path),
            None => Self::Io { what, path: path.clone(), source: error },
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the kernel has many errors")]
    fn of(errno: Errno, what: &'static str, path: &FilePath) -> Self {
        let path = path.clone();
        match errno {
            Errno::ENOENT => Self::NotFound { path },
            Errno::EEXIST => Self::Exists { path },
            Errno::EISDIR | Errno::ENXIO => Self::NotAFile { path },
            Errno::ENOTDIR => Self::NotADirectory { path },
            Errno::ENOTEMPTY => Self::NotEmpty { path },
            Errno::EXDEV => Self::Outside { path },
            Errno::EACCES | Errno::EPERM | Errno::EROFS => Self::Denied { path },
            Errno::ENOSPC | Errno::EDQUOT => Self::DiskFull { path },
            Errno::EFBIG => Self::TooLarge { message: "the file would be larger than allowed".to_owned() },
            Errno::ENAMETOOLONG => Self::invalid("a path has at most 4095 bytes, a name 255"),
            Errno::ELOOP => Self::invalid("the path has too many links, or one that the kernel made"),
            Errno::EAGAIN => Self::TimedOut { message: "the path changes while it is resolved".to_owned() },
            other => Self::Io { what, path, source: other.into() },
        }
    }

    fn code(&self) -> FilesErrorCode {
        match self {
            Self::Invalid { .. } => FilesErrorCode::InvalidRequest,
            Self::NotFound { .. } => FilesErrorCode::NotFound,
            Self::Exists { .. } => FilesErrorCode::Exists,
            Self::NotAFile { .. } => FilesErrorCode::NotAFile,
            Self::NotADirectory { .. } => FilesErrorCode::NotADirectory,
            Self::NotEmpty { .. } => FilesErrorCode::NotEmpty,
            Self::Outside { .. } => FilesErrorCode::Outside,
            Self::Denied { .. } => FilesErrorCode::AccessDenied,
            Self::Precondition { .. } => FilesErrorCode::PreconditionFailed,
            Self::Range { .. } => FilesErrorCode::RangeNotSatisfiable,
            Self::TooLarge { .. } => FilesErrorCode::TooLarge,
            Self::TooMany { .. } => FilesErrorCode::TooMany,
            Self::DiskFull { .. } => FilesErrorCode::DiskFull,
            Self::TimedOut { .. } => FilesErrorCode::TimedOut,
            Self::BodyCut(_) | Self::Cancelled => FilesErrorCode::BodyCut,
            Self::Io { .. } => FilesErrorCode::Internal,
        }
    }

    fn path(&self) -> Option<&FilePath> {
        match self {
            Self::NotFound { path }
            | Self::Exists { path }
            | Self::NotAFile { path }
            | Self::NotADirectory { path }
            | Self::NotEmpty { path }
            | Self::Outside { path }
            | Self::Denied { path }
            | Self::Precondition { path }
            | Self::Range { path, .. }
            | Self::DiskFull { path }
            | Self::Io { path, .. } => Some(path),
            Self::Invalid { .. }
            | Self::TooLarge { .. }
            | Self::TooMany { .. }
            | Self::TimedOut { .. }
            | Self::BodyCut(_)
            | Self::Cancelled => None,
        }
    }

    /// The failure as it is told to the caller, with the cause of what the kernel said.
    pub fn failure(&self) -> FilesFailure {
        let message = match self {
            Self::Io { source, .. } => format!("{self}: {source}"),
            Self::Invalid { .. }
            | Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::NotAFile { .. }
            | Self::NotADirectory { .. }
            | Self::NotEmpty { .. }
            | Self::Outside { .. }
            | Self::Denied { .. }
            | Self::Precondition { .. }
            | Self::Range { .. }
            | Self::TooLarge { .. }
            | Self::TooMany { .. }
            | Self::DiskFull { .. }
            | Self::TimedOut { .. }
            | Self::BodyCut(_)
            | Self::Cancelled => self.to_string(),
        };
        FilesFailure { code: self.code(), message, path: self.path().cloned() }
    }
}
