//! Reports changes of a tree, a line of JSON each, until the caller hangs up.
//!
//! ```text
//! kernel ─▶ event ─▶ Tree (its path) ─▶ Batch ─▶ Change
//!   │          └─▶ new directory ─▶ watch it, then scan it ─▶ Batch
//!   └─ queue full, tree out of date ─▶ scan all again ─▶ Overflow
//! ```
//! A directory is watched by its descriptor, which was opened below the descriptor of its parent, never through a link.
//! A watch belongs to the directory and not to its path: after a move, [`Tree`](tree::Tree) knows its new path.
//!
//! **Invariant:** a change that is not reported is followed by an `Overflow`, sent when changes are reported again.
//!
//! Must not: hold a directory open while it waits. The kernel reports the end of a directory when no process has it open.

mod batch;
mod events;
mod lines;
mod run;
mod scan;
mod tree;
mod watcher;

use crate::{Exchange, FilesError, Workspace, exchange::gone};
use protocol::files::{FilePath, FilesReply};

pub fn watch(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    path: &FilePath,
    recursive: bool,
) -> Result<(), FilesError> {
    let mut watcher = watcher::Watcher::new(workspace, path, recursive)?;
    exchange.reply(FilesReply::Watching).map_err(gone)?;
    watcher.run(exchange)
}

/// A watch of a few directories, for tests of the limit.
#[cfg(test)]
pub fn watch_at_most(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    directories_max: usize,
) -> Result<(), FilesError> {
    let mut watcher = watcher::Watcher::new(workspace, &FilePath::default(), true)?;
    watcher.directories_max = directories_max;
    watcher.run(exchange)
}
