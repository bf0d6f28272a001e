//! What of a new workspace may be written to disk while its sandbox is launched.

use super::{super::layout::StackDir, record::sync_path};
use std::{io, path::PathBuf};

/// Files and directories that are in their place and may not be on disk yet. A launch is not reported before they are.
#[derive(Debug, Default)]
#[must_use = "a loss of power takes what was not synced"]
pub struct Unsynced {
    /// In the order in which they are written.
    paths: Vec<PathBuf>,
}

impl Unsynced {
    /// A stack and its name. One that was launched before may be of a launch that was cut off, so its age says nothing.
    pub(super) fn stack(stack: &StackDir, stacks: PathBuf) -> Self {
        Self { paths: vec![stack.record(), stack.path().to_owned(), stacks] }
    }

    /// A new name in a directory.
    pub(super) fn name_in(dir: PathBuf) -> Self {
        Self { paths: vec![dir] }
    }

    pub fn sync(&self) -> io::Result<()> {
        self.paths.iter().try_for_each(|path| sync_path(path))
    }
}
