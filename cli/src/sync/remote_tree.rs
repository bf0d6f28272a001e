//! The tree of the sandbox, from lists of hostd.

use super::tree::{Name, Node, Tree, Version};
use crate::{
    client::ClientError,
    commands::files::path_of,
    failure::Failure,
    files::{FileApi, ListOptions, WorkspacePath, link_stays_beneath, relative_names},
    limits,
};
use protocol::{
    api::{ApiErrorCode, FileView},
    files::FileType,
};

/// The directory of the sandbox.
#[derive(Clone)]
pub struct RemoteDirectory {
    pub api: FileApi,
    pub path: WorkspacePath,
    pub list: ListOptions,
}

impl RemoteDirectory {
    pub fn path_of(&self, name: &[u8]) -> WorkspacePath {
        self.path.join(name)
    }

    /// The whole tree, and links that lead out of it.
    pub async fn read(&self) -> Result<(Tree, Vec<Name>), Failure> {
        let items = self.api.list(&self.path, &self.list).await?;
        if items.len() >= limits::LIST_MAX_ITEMS {
            // What is not seen would be deleted.
            return Err(Failure::new("the directory has too many files to synchronise"));
        }
        Ok(self.tree_of(&items))
    }

    fn tree_of(&self, items: &[FileView]) -> (Tree, Vec<Name>) {
        let (mut tree, mut outside) = (Tree::new(), Vec::new());
        for item in items {
            let Some(name) = self.name_of(item) else { continue };
            match node_of(item) {
                Some(Node::Link { target }) if !link_stays_beneath(&name, &target) => outside.push(name),
                Some(node) => drop(tree.insert(name, node)),
                None => {}
            }
        }
        (tree, outside)
    }

    /// The name of an item below the directory; none for one that cannot be a name here.
    fn name_of(&self, item: &FileView) -> Option<Name> {
        let path = path_of(&item.path, item.path_base64.as_deref());
        let name = self.path.strip_from(&path)?;
        relative_names(name).map(|_| name.to_vec())
    }

    /// Reads one path again, with everything below it.
    pub async fn refresh(&self, tree: &mut Tree, name: &[u8]) -> Result<(), Failure> {
        remove_below(tree, name);
        let path = self.path_of(name);
        let found = match self.api.stat(&path, false).await {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut items = Vec::new();
        if found.kind == FileType::Directory {
            items = match self.api.list(&path, &self.list).await {
                Ok(items) => items,
                Err(error) if is_missing(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
        }
        items.push(found);
        tree.extend(self.tree_of(&items).0);
        Ok(())
    }
}

/// Whether nothing has the path; the sandbox itself is there.
pub fn is_missing(error: &ClientError) -> bool {
    let no_file =
        error.is(ApiErrorCode::NotFound) && error.api().is_some_and(|error| error.detail.missing.is_none());
    no_file || error.is(ApiErrorCode::NotADirectory)
}

fn remove_below(tree: &mut Tree, name: &[u8]) {
    tree.remove(name);
    let prefix = [name, b"/"].concat();
    tree.retain(|other, _| !other.starts_with(&prefix));
}

/// What an item is; none for FIFOs, sockets and devices, and for a link whose target is not text: it cannot be told.
pub fn node_of(item: &FileView) -> Option<Node> {
    match item.kind {
        FileType::Directory => Some(Node::Directory),
        FileType::Symlink => {
            let target =
                item.target.clone().filter(|target| !target.contains(char::REPLACEMENT_CHARACTER))?;
            Some(Node::Link { target: target.into_bytes() })
        }
        FileType::File => {
            let mode = u32::from_str_radix(&item.mode, 8).unwrap_or(0o644) & 0o777;
            let version = Version::Remote(item.etag.clone());
            Some(Node::File { size: item.size, mode, version })
        }
        FileType::Fifo | FileType::Socket | FileType::Device => None,
    }
}
