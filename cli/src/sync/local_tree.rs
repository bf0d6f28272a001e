//! The tree of this machine, read without following links.

use super::{
    ignore_rules::{IGNORE_FILE, IgnoreRules},
    tree::{Name, Node, Tree, Version},
};
use crate::files::{link_stays_beneath, open_regular, os_name, permissions};
use std::{
    fs::{self, Metadata},
    io::{self, Read as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::Path,
};

/// Bytes of a `.gitignore` file that are read.
const IGNORE_FILE_MAX_BYTES: u64 = 1 << 20;

/// A tree and the rules that its files gave.
pub struct LocalScan {
    pub tree: Tree,
    pub rules: IgnoreRules,
    /// Links that lead out of the directory; they are not synchronised.
    pub outside: Vec<Name>,
}

/// Reads everything below the directory. Fails where a part cannot be read: what is not seen would be deleted.
pub fn scan(root: &Path, rules: &IgnoreRules) -> io::Result<LocalScan> {
    let mut scan = LocalScan { tree: Tree::new(), rules: rules.without_files(), outside: Vec::new() };
    scan.directory(root, b"")?;
    Ok(scan)
}

/// What is at a path now; none where nothing is, or something that is not synchronised.
pub fn node_at(path: &Path) -> io::Result<Option<Node>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => node(path, &metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn node(path: &Path, metadata: &Metadata) -> io::Result<Option<Node>> {
    let kind = metadata.file_type();
    Ok(if kind.is_dir() {
        Some(Node::Directory)
    } else if kind.is_symlink() {
        Some(Node::Link { target: fs::read_link(path)?.into_os_string().into_vec() })
    } else {
        kind.is_file().then(|| file_node(metadata))
    })
}

pub fn file_node(metadata: &Metadata) -> Node {
    let time = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
    let version = Version::Local {
        modified_ns: time(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: time(metadata.ctime(), metadata.ctime_nsec()),
        inode: metadata.ino(),
    };
    Node::File { size: metadata.len(), mode: permissions(metadata), version }
}

impl LocalScan {
    fn directory(&mut self, path: &Path, name: &[u8]) -> io::Result<()> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            // Deleted meanwhile; the top must stay.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !name.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut names: Vec<Vec<u8>> = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().as_bytes().to_vec());
        }
        if names.iter().any(|name| name == IGNORE_FILE)
            && let Ok((file, _)) = open_regular(&path.join(os_name(IGNORE_FILE)), false)
        {
            let mut content = Vec::new();
            file.take(IGNORE_FILE_MAX_BYTES).read_to_end(&mut content)?;
            self.rules.add_file(name, &content);
        }
        for entry in names {
            let below = if name.is_empty() { entry.clone() } else { [name, &entry].join(&b'/') };
            self.entry(&path.join(os_name(&entry)), below)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: Name) -> io::Result<()> {
        let Some(node) = node_at(path)? else { return Ok(()) };
        if self.rules.is_ignored(&name, node.is_directory()) {
            return Ok(());
        }
        match &node {
            Node::Link { target } if !link_stays_beneath(&name, target) => {
                self.outside.push(name);
                return Ok(());
            }
            Node::Directory => self.directory(path, &name)?,
            Node::Link { .. } | Node::File { .. } => {}
        }
        self.tree.insert(name, node);
        Ok(())
    }
}
