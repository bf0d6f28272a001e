//! Lists a directory or a tree, a page at a time.

use crate::{
    Exchange, FilesError, Workspace,
    limits::{LIST_MAX, LIST_MAX_BYTES},
    walk::{Walk, WalkOptions},
};
use protocol::files::{FileEntry, ListRequest};

/// The entries of a page, and whether there are more.
pub fn list(
    workspace: &Workspace,
    exchange: &dyn Exchange,
    request: &ListRequest,
) -> Result<(Vec<FileEntry>, bool), FilesError> {
    let limit = request.limit.clamp(1, LIST_MAX);
    let options = WalkOptions {
        depth: request.depth,
        select: &request.select,
        after: request.after.as_ref(),
        wanted: limit,
    };
    let mut walk = Walk::new(workspace, &request.path, &options)?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some(visited) = walk.next(exchange)? {
        if items.len() == limit || bytes > LIST_MAX_BYTES {
            return Ok((items, true));
        }
        let target = visited.entry.target.as_ref();
        bytes += visited.entry.path.0.len() + target.map_or(0, |target| target.0.len());
        items.push(visited.entry);
    }
    Ok((items, false))
}
