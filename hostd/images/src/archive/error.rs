//! Why an archive is no image.

use crate::{
    ManifestError,
    limits::{ARCHIVE_MAX_BYTES, NAMED_MAX, NAMED_MAX_CHARS},
    tar_reader::TarError,
};
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{what} could not be read")]
    Read { what: String, source: io::Error },
    #[error(transparent)]
    Tar(#[from] TarError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("it is neither a file nor a directory")]
    NotAFile,
    #[error("it has more than {} GiB", ARCHIVE_MAX_BYTES >> 30)]
    TooLarge,
    #[error("it has no image")]
    Empty,
    #[error("it has several images, name one of them: {}", listed(.tags))]
    SeveralImages { tags: Vec<String> },
    #[error("it has no image {tag}, only {}", listed(.found))]
    NoTag { tag: String, found: Vec<String> },
    #[error("it lacks {name}")]
    MissingBlob { name: String },
    #[error("its {name} is damaged: the digest does not match")]
    DigestMismatch { name: String },
    #[error("its indexes refer to each other too deeply")]
    IndexDepth,
}

impl ArchiveError {
    pub(super) fn read(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Read { what, source }
    }
}

/// Lists names for people, escaped and bounded.
fn listed(names: &[String]) -> String {
    let shown = |name: &String| name.chars().take(NAMED_MAX_CHARS).flat_map(char::escape_debug).collect();
    let list: Vec<String> = names.iter().take(NAMED_MAX).map(shown).collect();
    match (names.is_empty(), names.len().saturating_sub(NAMED_MAX)) {
        (true, _) => "images without a name".to_owned(),
        (false, 0) => list.join(", "),
        (false, more) => format!("{} and {more} others", list.join(", ")),
    }
}
