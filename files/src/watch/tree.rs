//! The watched directories, each by the key of its watch. Paths follow from names, so that a move is one change. Pure.

use std::{collections::HashMap, hash::Hash};

/// Which directory a watch is of, whatever path leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryId {
    pub device: u64,
    pub inode: u64,
}

pub struct Tree<K> {
    top: K,
    nodes: HashMap<K, Node<K>>,
}

struct Node<K> {
    /// None of the top, and of a directory whose move is half seen.
    parent: Option<K>,
    name: Box<[u8]>,
    id: DirectoryId,
    children: HashMap<Box<[u8]>, K>,
}

/// The result of placing a directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Placed<K> {
    /// Whether it was not in the tree.
    pub new: bool,
    /// Directories that are not in the tree any more: what had the name before, and all below it.
    pub removed: Vec<K>,
}

/// A directory cannot be below itself: the tree is out of date.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfDate;

impl<K: Copy + Eq + Hash> Tree<K> {
    pub fn new(top: K, id: DirectoryId) -> Self {
        let node = Node { parent: None, name: Box::default(), id, children: HashMap::new() };
        Self { top, nodes: HashMap::from([(top, node)]) }
    }

    pub fn top(&self) -> K {
        self.top
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn keys(&self) -> impl Iterator<Item = K> + '_ {
        self.nodes.keys().copied()
    }

    pub fn contains(&self, key: K) -> bool {
        self.nodes.contains_key(&key)
    }

    pub fn id(&self, key: K) -> Option<DirectoryId> {
        self.nodes.get(&key).map(|node| node.id)
    }

    /// The path below the top; `None` of a directory that is not connected to it.
    pub fn path(&self, key: K) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut at = key;
        while at != self.top {
            let node = self.nodes.get(&at)?;
            names.push(&node.name);
            at = node.parent?;
        }
        let mut path = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.into_iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        Some(path)
    }

    /// Places a directory below another, in place of what has the name.
    pub fn place(&mut self, parent: K, name: &[u8], key: K, id: DirectoryId) -> Result<Placed<K>, OutOfDate> {
        if !self.contains(parent) || self.is_within(parent, key) {
            return Err(OutOfDate);
        }
        let before = self.child(parent, name);
        if before == Some(key) {
            return Ok(Placed { new: false, removed: vec![] });
        }
        let removed = before.map(|before| self.remove(before)).unwrap_or_default();
        let new = !self.contains(key);
        self.unlink(key);
        let node = self.nodes.entry(key).or_insert_with(|| Node {
            parent: None,
            name: Box::default(),
            id,
            children: HashMap::new(),
        });
        (node.parent, node.name) = (Some(parent), name.into());
        let above = self.nodes.get_mut(&parent).ok_or(OutOfDate)?;
        above.children.insert(name.into(), key);
        Ok(Placed { new, removed })
    }

    pub fn child(&self, parent: K, name: &[u8]) -> Option<K> {
        self.nodes.get(&parent)?.children.get(name).copied()
    }

    /// Cuts a directory off, with all below it, until it is placed elsewhere or removed.
    pub fn cut(&mut self, parent: K, name: &[u8]) -> Option<K> {
        let key = self.child(parent, name)?;
        self.unlink(key);
        Some(key)
    }

    /// Removes a directory and all below it; returns them.
    pub fn remove(&mut self, key: K) -> Vec<K> {
        self.unlink(key);
        let mut removed = Vec::new();
        let mut pending = vec![key];
        while let Some(key) = pending.pop() {
            if let Some(node) = self.nodes.remove(&key) {
                pending.extend(node.children.into_values());
                removed.push(key);
            }
        }
        removed
    }

    fn unlink(&mut self, key: K) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let (parent, name) = (node.parent.take(), std::mem::take(&mut node.name));
        if let Some(above) = parent.and_then(|parent| self.nodes.get_mut(&parent)) {
            above.children.remove(&name);
        }
    }

    fn is_within(&self, key: K, of: K) -> bool {
        let above = std::iter::successors(Some(key), |at| self.nodes.get(at).and_then(|node| node.parent));
        above.into_iter().any(|at| at == of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: DirectoryId = DirectoryId { device: 1, inode: 2 };

    fn path(tree: &Tree<u32>, key: u32) -> Option<String> {
        tree.path(key).map(|path| String::from_utf8(path).unwrap())
    }

    /// 0 is the top, 1 `a`, 2 `a/b`, 3 `a/b/c`.
    fn tree() -> Tree<u32> {
        let mut tree = Tree::new(0, ID);
        for (parent, name, key) in [(0, "a", 1), (1, "b", 2), (2, "c", 3)] {
            assert!(tree.place(parent, name.as_bytes(), key, ID).unwrap().new);
        }
        tree
    }

    #[test]
    fn paths_follow_a_move() {
        let mut tree = tree();
        assert_eq!(path(&tree, 3).as_deref(), Some("a/b/c"));
        assert_eq!(tree.cut(1, b"b"), Some(2));
        assert_eq!(path(&tree, 3), None, "not connected");
        let moved = tree.place(0, b"z", 2, ID).unwrap();
        assert_eq!(moved, Placed { new: false, removed: vec![] });
        assert_eq!(path(&tree, 3).as_deref(), Some("z/c"));
        assert_eq!(tree.child(1, b"b"), None);
    }

    #[test]
    fn what_had_the_name_before_is_removed_with_all_below_it() {
        let mut tree = tree();
        let mut placed = tree.place(0, b"a", 9, ID).unwrap();
        placed.removed.sort_unstable();
        assert_eq!(placed, Placed { new: true, removed: vec![1, 2, 3] });
        assert_eq!((tree.len(), path(&tree, 9).as_deref()), (2, Some("a")));
    }

    #[test]
    fn a_directory_is_never_below_itself() {
        let mut tree = tree();
        for (parent, key) in [(3, 1), (1, 1), (7, 1), (2, 0)] {
            assert_eq!(tree.place(parent, b"x", key, ID), Err(OutOfDate), "{key} below {parent}");
        }
        assert_eq!(path(&tree, 3).as_deref(), Some("a/b/c"));
    }
}
