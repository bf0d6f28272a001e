//! These tests need root: the workspace belongs to another user, and file systems are mounted.

use super::super::is_full;
use super::*;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{Gid, Uid};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use tempfile::TempDir;

const USER: Identity = Identity { uid: Uid::from_raw(1000), gid: Gid::from_raw(1000) };
const NOW_MS: u64 = 1_700_000_000_000;

/// A 0700 home of the user in a world-readable directory.
fn workspace() -> (TempDir, PathBuf) {
    let outer = tempfile::tempdir().expect("temporary directory");
    fs::set_permissions(outer.path(), Permissions::from_mode(0o755)).expect("mode");
    let home = outer.path().join("home");
    directory(&home);
    (outer, home)
}

fn directory(path: &Path) {
    fs::create_dir(path).expect("directory");
    fs::set_permissions(path, Permissions::from_mode(0o700)).expect("mode");
    chown(path, Some(1000), Some(1000)).expect("root may");
}

fn measure(root: &Path) -> (WorkspaceUse, usize) {
    let mut walk = Walk::start(root, USER);
    let slices = 1 + std::iter::repeat_with(|| walk.slice()).take_while(|finished| !finished).count();
    (walk.result(NOW_MS), slices)
}

/// The number of files, and whether the count is partial.
fn counted(root: &Path) -> (u64, bool) {
    let (used, _) = measure(root);
    (used.files, used.partial)
}

#[test]
fn files_of_the_user_are_counted_by_the_blocks_they_take() {
    let (_outer, home) = workspace();
    directory(&home.join("src"));
    fs::write(home.join("src/main.js"), vec![b'x'; 100_000]).expect("write");
    let sparse = fs::File::create(home.join("sparse")).expect("create");
    sparse.set_len(1 << 40).expect("size");
    let (used, slices) = measure(&home);
    assert_eq!((used.files, used.partial, used.measured_ms, slices), (3, false, NOW_MS, 1));
    assert!((100_000..1_000_000).contains(&used.used_bytes), "{used:?}");
    assert!(used.free_bytes > 0 && used.total_bytes >= used.free_bytes, "{used:?}");
}

#[test]
fn symbolic_links_are_counted_but_not_followed() {
    let (outer, home) = workspace();
    directory(&outer.path().join("outside"));
    fs::write(outer.path().join("outside/file"), "x").expect("write");
    symlink(outer.path().join("outside"), home.join("to-directory")).expect("link");
    symlink("/dev/zero", home.join("to-device")).expect("link");
    symlink(".", home.join("circle")).expect("link");
    assert_eq!(counted(&home), (3, false));

    symlink(&home, outer.path().join("root-link")).expect("link");
    assert_eq!(counted(&outer.path().join("root-link")), (0, true), "nor at the root itself");
}

#[test]
fn a_directory_swapped_for_a_link_during_the_walk_does_not_lead_outside() {
    // Three levels: the swapped one is the last, the middle and the first component of the waiting path.
    for swapped in ["a", "a/b", "a/b/c"] {
        let (outer, home) = workspace();
        for path in ["a", "a/b", "a/b/c"] {
            directory(&home.join(path));
        }
        let elsewhere = outer.path().join("elsewhere");
        for path in ["", "b", "b/c", "c"] {
            directory(&elsewhere.join(path));
            fs::write(elsewhere.join(path).join("file"), "x").expect("write");
        }
        let mut walk = Walk::start(&home, USER);
        // As if this directory alone were left to read.
        walk.pending.pop();
        walk.pending.push(PathBuf::from("a/b/c"));
        fs::rename(home.join(swapped), outer.path().join("moved")).expect("rename");
        symlink(&elsewhere, home.join(swapped)).expect("link");
        assert!(walk.slice());
        assert_eq!((walk.files, walk.partial), (0, false), "{swapped}");
    }
}

#[test]
fn a_directory_the_user_may_not_read_makes_the_result_partial() {
    let (_outer, home) = workspace();
    fs::create_dir(home.join("of-root")).expect("directory");
    fs::set_permissions(home.join("of-root"), Permissions::from_mode(0o700)).expect("mode");
    fs::write(home.join("of-root/file"), "x").expect("write");
    fs::write(home.join("file"), "x").expect("write");
    assert_eq!(counted(&home), (2, true));
}

#[test]
fn a_workspace_that_does_not_exist_is_empty_and_partial() {
    let (used, slices) = measure(Path::new("/nonexistent/workspace"));
    let expected = WorkspaceUse { partial: true, measured_ms: NOW_MS, ..WorkspaceUse::default() };
    assert_eq!((used, slices), (expected, 1));
}

#[test]
fn a_large_directory_takes_several_slices_of_bounded_size() {
    let (_outer, home) = workspace();
    let files = 2 * DISK_WALK_SLICE + 10;
    for number in 0..files {
        fs::write(home.join(number.to_string()), "").expect("write");
    }
    let mut walk = Walk::start(&home, USER);
    let mut before = 0;
    while !walk.slice() {
        assert!(walk.files - before <= DISK_WALK_SLICE as u64);
        before = walk.files;
    }
    assert!(before > 0, "more than one slice");
    assert_eq!((walk.files, walk.partial), (files as u64, false));
    assert!(walk.slice(), "finished stays finished");
}

#[test]
fn a_very_deep_tree_needs_neither_stack_nor_descriptors() {
    let (_outer, home) = workspace();
    let mut path = home.clone();
    for _ in 0..600 {
        path.push("d");
        directory(&path);
    }
    assert_eq!(counted(&home), (600, false));
}

#[test]
fn the_walk_ends_at_its_limit() {
    let (_outer, home) = workspace();
    for name in ["a", "b", "c"] {
        fs::write(home.join(name), "").expect("write");
    }
    let mut walk = Walk::start(&home, USER);
    walk.files = DISK_WALK_MAX_FILES - 2;
    assert!(walk.slice());
    assert_eq!((walk.files, walk.partial), (DISK_WALK_MAX_FILES, true));

    let mut walk = Walk::start(&home, USER);
    walk.steps_left = 2;
    assert!(walk.slice());
    assert!(walk.files <= 1 && walk.partial);
    assert!(walk.slice(), "and stays there");
}

#[test]
fn every_file_of_a_branching_tree_is_found() {
    let (_outer, home) = workspace();
    let mut expected = 0;
    for outer in ["a", "b", "c"] {
        directory(&home.join(outer));
        for inner in ["d", "e", "f"] {
            let path = home.join(outer).join(inner);
            directory(&path);
            directory(&path.join("leaf"));
            fs::write(path.join("leaf/file"), "x").expect("write");
            expected += 3;
        }
        expected += 1;
    }
    assert_eq!(counted(&home), (expected, false));
}

/// A small tmpfs, unmounted on drop.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(point: &Path, options: &str) -> Self {
        mount(Some("tmpfs"), point, Some("tmpfs"), MsFlags::empty(), Some(options)).expect("root may mount");
        Self(point.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn another_file_system_below_is_not_entered() {
    let (_outer, home) = workspace();
    directory(&home.join("mount"));
    let _mounted = Mounted::tmpfs(&home.join("mount"), "size=64k,mode=777");
    fs::write(home.join("mount/file"), "x").expect("write");
    fs::write(home.join("file"), "x").expect("write");
    assert_eq!(counted(&home), (1, false));
}

#[test]
fn full_means_no_block_or_no_inode_is_left() {
    for (options, is_full_with) in [("size=8k,nr_inodes=100", 3), ("size=1m,nr_inodes=3", 3)] {
        let (_outer, home) = workspace();
        let _mounted = Mounted::tmpfs(&home, options);
        assert!(!is_full(&home), "{options}");
        for name in 0..is_full_with {
            let _ = fs::write(home.join(name.to_string()), "x");
        }
        assert!(is_full(&home), "{options}");
    }
    assert!(!is_full(Path::new("/nonexistent")));
    assert!(!is_full(Path::new("/proc")), "has no blocks at all");
}
