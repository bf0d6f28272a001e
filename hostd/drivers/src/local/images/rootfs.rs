//! The root file system of a sandbox, before it is mounted.

use hostd_images::LayerStack;
use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rootfs {
    pub tree: RootTree,
    /// Host directories to bind read-only: source and destination.
    pub binds: Vec<(PathBuf, PathBuf)>,
    /// Variables of the image, as `NAME=value`.
    pub variables: Vec<String>,
    /// Paths that the image wants to be writable.
    pub volumes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootTree {
    Directory(PathBuf),
    /// Mounted as one tree for each launch.
    Layers {
        stack: LayerStack,
        /// An existing directory that the tree is mounted over.
        merge_at: PathBuf,
        has_skeleton: bool,
    },
}

impl Rootfs {
    /// The root file system in a directory.
    pub fn directory(path: PathBuf, binds: Vec<(PathBuf, PathBuf)>) -> Self {
        Self { tree: RootTree::Directory(path), binds, variables: vec![], volumes: vec![] }
    }
}

impl RootTree {
    /// The path at which the runtime finds the tree.
    pub fn mounted_at(&self) -> PathBuf {
        match self {
            Self::Directory(path) => path.clone(),
            Self::Layers { merge_at, .. } => LayerStack::merged_path(merge_at),
        }
    }

    /// Runs work that reads the tree. Blocks.
    pub fn read<T: Send>(&self, work: impl FnOnce(&Path) -> io::Result<T> + Send) -> io::Result<T> {
        match self {
            Self::Directory(path) => work(path),
            Self::Layers { stack, merge_at, .. } => stack.with_merged(merge_at, work),
        }
    }
}
