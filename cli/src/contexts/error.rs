//! Errors of the files of contexts, and what the user can do about each.

use super::{ContextName, LOCAL};
use crate::{failure::Failure, limits};
use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ContextsError {
    #[error("contexts have no place: neither XDG_CONFIG_HOME nor HOME is set")]
    NoHome,
    #[error("{} is not safe: {why}", .path.display())]
    Unsafe { path: PathBuf, why: UnsafeFile },
    #[error("{} is not a file of contexts: {why}", .path.display())]
    Invalid { path: PathBuf, why: String },
    #[error("could not {doing} {}", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the token file {} is gone", .0.display())]
    NoToken(PathBuf),
    #[error("no context {0}")]
    Missing(ContextName),
    #[error("context {0} exists")]
    Exists(ContextName),
    #[error("there are {} contexts, and no more are kept", limits::CONTEXTS_MAX)]
    TooMany,
    #[error("the token of context {0} is for {1}, and is not sent to another address")]
    OtherAddress(ContextName, String),
}

/// Why a file or directory is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeFile {
    #[error("it is a symbolic link")]
    Link,
    #[error("it is no {0}")]
    OtherKind(&'static str),
    #[error("it belongs to user {0}")]
    OtherUser(u32),
    #[error("other users may write to it (mode {0:04o})")]
    Writable(u32),
    #[error("other users may read it (mode {0:04o})")]
    Readable(u32),
}

impl ContextsError {
    fn next_step(&self) -> String {
        let without = format!("`slipway --context {LOCAL} …` works without contexts");
        match self {
            Self::NoHome => "set HOME, or XDG_CONFIG_HOME to an absolute path".to_owned(),
            Self::Unsafe { path, why: UnsafeFile::Readable(_) } => format!(
                "chmod 600 {}; if others use this machine, create another token and revoke this one",
                path.display()
            ),
            Self::Unsafe { path, why: UnsafeFile::Writable(_) } => {
                format!("check its content, then chmod go-w {}; {without}", path.display())
            }
            Self::Unsafe { why: UnsafeFile::OtherUser(_), .. } => {
                format!("use a HOME or XDG_CONFIG_HOME of your own; {without}")
            }
            Self::Unsafe { why: UnsafeFile::Link | UnsafeFile::OtherKind(_), .. } => {
                format!("put a real file there; {without}")
            }
            Self::Invalid { .. } => format!("correct it or remove it; {without}"),
            Self::Io { .. } => without,
            Self::NoToken(_) => {
                "give the token again: `slipway context add NAME --replace --url URL`".to_owned()
            }
            Self::Missing(_) => "`slipway context ls` shows what exists".to_owned(),
            Self::Exists(name) => {
                format!("use another name, --replace, or `slipway context rm {name}` first")
            }
            Self::TooMany => "`slipway context rm` removes those that are not used".to_owned(),
            Self::OtherAddress(..) => "give the token of the new address instead of --keep-token".to_owned(),
        }
    }
}

impl From<ContextsError> for Failure {
    fn from(error: ContextsError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Self::new(format!("{error}{cause}")).hint(error.next_step())
    }
}
