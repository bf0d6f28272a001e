//! What has to be done so that both sides are the same. Pure: a table of what changed where.
//!
//! | local | remote | step |
//! |---|---|---|
//! | changed or new | as it was | upload |
//! | as it was | changed or new | download |
//! | gone | as it was | delete there |
//! | as it was | gone | delete here |
//! | gone | changed | download: a change is worth more than a deletion |
//! | changed | gone | upload, for the same reason |
//! | changed | changed | the same content: nothing; else a conflict |
//!
//! "As it was" means: as when both sides were last the same. A path that never was the same is new on both sides, so
//! that the first synchronisation deletes nothing.

use super::tree::{Base, Name, Node, Tree};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Upload(Name),
    Download(Name),
    DeleteRemote(Name),
    DeleteLocal(Name),
    /// Both have a file of the same size: a conflict, unless the bytes are the same.
    Compare(Name),
    /// Both sides have something else.
    Conflict(Name),
    /// Both sides are the same.
    Adopt(Name),
    /// Neither side has it any more, or it is not synchronised now.
    Forget(Name),
}

/// What happened to a path on one side since both were the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change<'a> {
    Gone,
    Same(&'a Node),
    Changed(&'a Node),
}

/// Returns the steps in the order in which they can be done: what is made goes from the top down, what is deleted from
/// the bottom up, and last.
pub fn plan(base: &Base, local: &Tree, remote: &Tree, is_ignored: impl Fn(&[u8]) -> bool) -> Vec<Step> {
    let names: BTreeSet<&Name> = base.keys().chain(local.keys()).chain(remote.keys()).collect();
    let (mut steps, mut deletions) = (Vec::new(), Vec::new());
    for name in names {
        let step = if is_ignored(name) {
            base.contains_key(name).then(|| Step::Forget(name.clone()))
        } else {
            step(name, base, local, remote)
        };
        match step {
            Some(step @ (Step::DeleteLocal(_) | Step::DeleteRemote(_))) => deletions.push(step),
            Some(step) => steps.push(step),
            None => {}
        }
    }
    deletions.reverse();
    steps.extend(deletions);
    steps
}

fn step(name: &Name, base: &Base, local: &Tree, remote: &Tree) -> Option<Step> {
    let synced = base.get(name);
    let here = change(local.get(name), synced.map(|synced| &synced.local));
    let there = change(remote.get(name), synced.map(|synced| &synced.remote));
    let name = || name.clone();
    match (here, there) {
        (Change::Same(_), Change::Same(_)) => None,
        (Change::Gone, Change::Gone) => synced.map(|_| Step::Forget(name())),
        (Change::Gone, Change::Changed(_)) | (Change::Same(_), Change::Changed(_)) => {
            Some(Step::Download(name()))
        }
        (Change::Changed(_), Change::Gone) | (Change::Changed(_), Change::Same(_)) => {
            Some(Step::Upload(name()))
        }
        (Change::Gone, Change::Same(_)) => Some(Step::DeleteRemote(name())),
        (Change::Same(_), Change::Gone) => Some(Step::DeleteLocal(name())),
        (Change::Changed(here), Change::Changed(there)) => Some(match (here, there) {
            (Node::Directory, Node::Directory) => Step::Adopt(name()),
            (Node::Link { target: here }, Node::Link { target: there }) if here == there => {
                Step::Adopt(name())
            }
            (Node::File { size: here, .. }, Node::File { size: there, .. }) if here == there => {
                Step::Compare(name())
            }
            (
                Node::Directory | Node::Link { .. } | Node::File { .. },
                Node::Directory | Node::Link { .. } | Node::File { .. },
            ) => Step::Conflict(name()),
        }),
    }
}

fn change<'a>(now: Option<&'a Node>, before: Option<&Node>) -> Change<'a> {
    match (now, before) {
        (None, _) => Change::Gone,
        (Some(now), Some(before)) if now == before => Change::Same(now),
        (Some(now), _) => Change::Changed(now),
    }
}

/// Returns whether the steps delete everything that was the same, from one side: a directory that was unmounted, or a
/// workspace that was made anew, looks like that.
pub fn deletes_everything(base: &Base, steps: &[Step]) -> bool {
    let files = base.values().filter(|synced| !synced.local.is_directory()).count();
    let is_file = |name: &Name| base.get(name).is_some_and(|synced| !synced.local.is_directory());
    let here = steps.iter().filter(|step| matches!(step, Step::DeleteLocal(name) if is_file(name))).count();
    let there = steps.iter().filter(|step| matches!(step, Step::DeleteRemote(name) if is_file(name))).count();
    files > 1 && (here == files || there == files)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tree::{Synced, Version},
        *,
    };

    fn file(size: u64, version: &str) -> Node {
        Node::File { size, mode: 0o644, version: Version::Remote(version.to_owned()) }
    }

    fn link(target: &str) -> Node {
        Node::Link { target: target.as_bytes().to_vec() }
    }

    /// The step for one path that was `before` on both sides.
    fn decided(before: Option<Node>, here: Option<Node>, there: Option<Node>) -> String {
        let name = b"f".to_vec();
        let tree = |node: Option<Node>| node.map(|node| (name.clone(), node)).into_iter().collect::<Tree>();
        let synced = |node: Node| (name.clone(), Synced { local: node.clone(), remote: node });
        let base: Base = before.map(synced).into_iter().collect();
        let steps = plan(&base, &tree(here), &tree(there), |_| false);
        steps.first().map_or_else(|| "-".to_owned(), |step| format!("{step:?}").replace("([102])", ""))
    }

    #[test]
    fn what_changed_where_decides() {
        let (old, new, other) = (|| Some(file(1, "a")), || Some(file(1, "b")), || Some(file(2, "c")));
        let table = [
            (old(), old(), old(), "-"),
            (old(), new(), old(), "Upload"),
            (old(), old(), new(), "Download"),
            (old(), None, old(), "DeleteRemote"),
            (old(), old(), None, "DeleteLocal"),
            (old(), None, new(), "Download"),
            (old(), new(), None, "Upload"),
            (old(), None, None, "Forget"),
            (old(), new(), Some(file(1, "d")), "Compare"),
            (old(), new(), other(), "Conflict"),
            // What never was the same is new on both sides: nothing is deleted.
            (None, old(), None, "Upload"),
            (None, None, old(), "Download"),
            (None, old(), new(), "Compare"),
            (None, old(), other(), "Conflict"),
            (None, Some(Node::Directory), Some(Node::Directory), "Adopt"),
            (None, Some(link("x")), Some(link("x")), "Adopt"),
            (None, Some(link("x")), Some(link("y")), "Conflict"),
            (None, Some(Node::Directory), old(), "Conflict"),
            (Some(Node::Directory), Some(Node::Directory), Some(Node::Directory), "-"),
            (Some(Node::Directory), None, Some(Node::Directory), "DeleteRemote"),
            (old(), Some(Node::Directory), old(), "Upload"),
            (Some(link("x")), Some(link("y")), Some(link("x")), "Upload"),
        ];
        for (before, here, there, expected) in table {
            let shown = format!("{before:?} {here:?} {there:?}");
            assert_eq!(decided(before, here, there), expected, "{shown}");
        }
    }

    #[test]
    fn directories_are_made_first_and_deleted_last() {
        let name = |text: &str| text.as_bytes().to_vec();
        let tree: Tree = [(name("new"), Node::Directory), (name("new/f"), file(1, "a"))].into();
        let gone = |node: Node| Synced { local: node.clone(), remote: node };
        let base: Base = [(name("old"), gone(Node::Directory)), (name("old/f"), gone(file(1, "a")))].into();
        let remote: Tree = [(name("old"), Node::Directory), (name("old/f"), file(1, "a"))].into();
        let steps = plan(&base, &tree, &remote, |_| false);
        let expected = [
            Step::Upload(name("new")),
            Step::Upload(name("new/f")),
            Step::DeleteRemote(name("old/f")),
            Step::DeleteRemote(name("old")),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn what_is_ignored_is_neither_copied_nor_deleted() {
        let name = |text: &str| text.as_bytes().to_vec();
        let synced = Synced { local: file(1, "a"), remote: file(1, "a") };
        let base: Base = [(name("f"), synced)].into();
        let local: Tree = [(name("f"), file(1, "a")), (name("g"), file(1, "a"))].into();
        assert_eq!(plan(&base, &local, &Tree::new(), |_| true), [Step::Forget(name("f"))]);
    }

    #[test]
    fn to_delete_everything_is_noticed() {
        let name = |text: &str| text.as_bytes().to_vec();
        let synced = || Synced { local: file(1, "a"), remote: file(1, "a") };
        let all: Tree = [(name("f"), file(1, "a")), (name("g"), file(1, "a"))].into();
        let one: Tree = [(name("f"), file(1, "a"))].into();
        let base: Base = [(name("f"), synced()), (name("g"), synced())].into();
        let single: Base = [(name("f"), synced())].into();
        for (base, local, remote, everything) in [
            (&base, &all, &Tree::new(), true),
            (&base, &Tree::new(), &all, true),
            (&base, &all, &one, false),
            // The only file may be deleted.
            (&single, &one, &Tree::new(), false),
        ] {
            let steps = plan(base, local, remote, |_| false);
            assert_eq!(deletes_everything(base, &steps), everything, "{steps:?}");
        }
    }
}
