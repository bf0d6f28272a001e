//! Lists a directory or a tree, a page at a time.

use crate::{
    Exchange, FilesError, Workspace,
    limits::LIST_MAX,
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
    let mut items = Vec::new();
    while let Some(visited) = walk.next(exchange)? {
        if items.len() == limit {
            return Ok((items, true));
        }
        items.push(visited.entry);
    }
    Ok((items, false))
}
