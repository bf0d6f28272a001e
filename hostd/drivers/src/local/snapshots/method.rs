//! How snapshots of workspaces are taken on this host: the best of three methods that works on the file system of the data
//! directory, tried when hostd starts.
//!
//! ```text
//! btrfs    a workspace is a subvolume; a snapshot is the kernel's      no time, at any size
//! overlay  a workspace becomes a stack of layers                       no time at rest; what differs is copied otherwise
//! copy     everything is copied                                        the time of a copy
//! ```

use super::{
    super::{
        files,
        layout::{Layout, StackDir},
        limits::UID_FIRST,
        quota, remove_tree,
    },
    btrfs,
    stack::Stack,
};
use std::{fmt, io, path::Path, str::FromStr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotMethod {
    Btrfs,
    Overlay,
    Copy,
}

/// The method that the operator configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SnapshotMethodSetting {
    /// The best that works.
    #[default]
    Auto,
    Only(SnapshotMethod),
}

const BEST_FIRST: [SnapshotMethod; 3] =
    [SnapshotMethod::Btrfs, SnapshotMethod::Overlay, SnapshotMethod::Copy];

impl SnapshotMethod {
    pub fn name(self) -> &'static str {
        match self {
            Self::Btrfs => "btrfs",
            Self::Overlay => "overlay",
            Self::Copy => "copy",
        }
    }
}

impl fmt::Display for SnapshotMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SnapshotMethodSetting {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => BEST_FIRST.into_iter().find(|method| method.name() == text).map(Self::Only).ok_or(()),
        }
    }
}

/// Chooses the method. Where the configured one does not work, copies are made: they are slower and hold the same.
/// Returns why better or configured ones were not chosen, too.
pub fn choose(
    setting: SnapshotMethodSetting,
    works: impl Fn(SnapshotMethod) -> Result<(), String>,
) -> (SnapshotMethod, Vec<(SnapshotMethod, String)>) {
    let mut rejected = vec![];
    for method in BEST_FIRST {
        if matches!(setting, SnapshotMethodSetting::Only(only) if only != method) {
            continue;
        }
        match works(method) {
            Ok(()) => return (method, rejected),
            Err(why) => rejected.push((method, why)),
        }
    }
    (SnapshotMethod::Copy, rejected)
}

/// Tries a method as it will be used.
pub fn probe(layout: &Layout, method: SnapshotMethod, idmapped: bool) -> Result<(), String> {
    match method {
        SnapshotMethod::Copy => Ok(()),
        SnapshotMethod::Btrfs => btrfs::probe(&layout.trash()),
        SnapshotMethod::Overlay => {
            probe_overlay(layout, idmapped).map_err(|error| format!("overlay: {error}"))
        }
    }
}

fn probe_overlay(layout: &Layout, idmapped: bool) -> io::Result<()> {
    let dir = layout.trash().join(format!("stack-probe-{}", ulid::Ulid::generate()));
    files::make_dir(&dir, 0o700)?;
    let tried = mount_and_write(layout, &dir, idmapped);
    let _ = quota::detach(&dir.join("at"));
    remove_tree::remove_tree(&dir)?;
    tried
}

fn mount_and_write(layout: &Layout, dir: &Path, idmapped: bool) -> io::Result<()> {
    let (stack, at, layer) = (StackDir::at(dir.join("stack")), dir.join("at"), dir.join("layer"));
    for path in
        [stack.path().to_owned(), stack.live(), stack.upper(), stack.work(), at.clone(), layer.clone()]
    {
        files::make_dir(&path, 0o755)?;
    }
    files::make_dir(&layer.join("directory"), 0o755)?;
    let first_id = idmapped.then_some(UID_FIRST);
    Stack { dir: &stack, layers: &[layer], first_id, scratch: &layout.stack_at() }.mount(&at)?;
    // Fails where directories of layers cannot be moved.
    std::fs::rename(at.join("directory"), at.join("moved"))?;
    match stack.upper().join("moved").is_dir() {
        true => Ok(()),
        false => Err(io::Error::other("a change did not arrive in the upper directory")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SnapshotMethod::{Btrfs, Copy, Overlay};

    #[test]
    fn the_best_method_that_works_is_chosen_and_copies_always_work() {
        for (choice, works, expected) in [
            (SnapshotMethodSetting::Auto, vec![Btrfs, Overlay, Copy], Btrfs),
            (SnapshotMethodSetting::Auto, vec![Overlay, Copy], Overlay),
            (SnapshotMethodSetting::Auto, vec![Copy], Copy),
            (SnapshotMethodSetting::Only(Overlay), vec![Btrfs, Overlay, Copy], Overlay),
            (SnapshotMethodSetting::Only(Btrfs), vec![Overlay, Copy], Copy),
        ] {
            let (method, _) =
                choose(choice, |method| works.contains(&method).then_some(()).ok_or("no".to_owned()));
            assert_eq!(method, expected, "{choice:?} {works:?}");
        }
        for method in BEST_FIRST {
            assert_eq!(method.name().parse(), Ok(SnapshotMethodSetting::Only(method)));
        }
    }

    #[test]
    fn overlays_work_here_and_a_probe_leaves_nothing() {
        let temp = tempfile::tempdir().expect("a directory");
        let layout = Layout::new(temp.path().to_owned(), "oci");
        for dir in [layout.trash(), layout.workspace_layers(), layout.stack_at()] {
            files::make_dir(&dir, 0o700).expect("made");
        }
        for idmapped in [true, false] {
            assert_eq!(probe(&layout, Overlay, idmapped), Ok(()));
        }
        assert_eq!(std::fs::read_dir(layout.trash()).expect("there").count(), 0);
    }
}
