//! Manifests: their order, files with holes, deep and wide trees, and what a comparison finds.

use super::{
    super::{
        extents::{Extent, extents},
        manifest::{ManifestEntry, write_tree},
        verify::{ManifestDifference, compare},
        walk::{escaped, unescaped, walk_holding},
    },
    Excludes, Host, SnapshotMethod, StackIds, all_ways, as_owner, fill, id,
};
use nix::{
    dir::Dir,
    fcntl::OFlag,
    sys::stat::{Mode, SFlag, mkdirat, mknod},
};
use protocol::api::SandboxId;
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
};

fn text(tree: &Path) -> String {
    String::from_utf8(write_tree(tree, vec![]).expect("read").0).expect("text")
}

fn entry(tree: &Path, path: &str) -> ManifestEntry {
    let entries = text(tree).lines().map(serde_json::from_str).collect::<Result<Vec<ManifestEntry>, _>>();
    entries.expect("lines of JSON").into_iter().find(|entry| entry.path == path).expect("it is there")
}

#[test]
fn a_manifest_tells_trees_apart() {
    let temp = tempfile::tempdir().expect("a directory");
    let top = temp.path();
    fs::create_dir(top.join("dir")).expect("made");
    fs::write(top.join("dir/file"), "content").expect("written");
    fs::write(top.join(OsStr::from_bytes(b"odd-\xff%\n")), "").expect("written");
    symlink("dir/file", top.join("link")).expect("linked");
    let (before, summary) = write_tree(top, vec![]).expect("read");
    assert_eq!((summary.files, summary.bytes), (2, 7));
    let same = compare(&before[..], top).expect("read");
    assert_eq!((same.differences, same.differences_total, same.found), (vec![], 0, summary));
    fs::write(top.join("dir/file"), "CONTENT").expect("written");
    fs::remove_file(top.join("link")).expect("removed");
    fs::write(top.join("new"), "").expect("written");
    fs::set_permissions(top.join("dir"), fs::Permissions::from_mode(0o700)).expect("set");
    let expected = [
        ManifestDifference::Changed("dir".to_owned()),
        ManifestDifference::Changed("dir/file".to_owned()),
        ManifestDifference::Missing("link".to_owned()),
        ManifestDifference::Added("new".to_owned()),
    ];
    let found = compare(&before[..], top).expect("read");
    assert_eq!((found.differences, found.differences_total), (expected.to_vec(), 4));
    let empty = tempfile::tempdir().expect("a directory");
    assert_eq!(compare(&before[..], empty.path()).expect("read").differences_total, 4);
    assert_eq!(compare(&b""[..], top).expect("read").differences_total, 4);
}

/// Whatever the number of names that are held: with few of them, directories are read again and again.
#[test]
fn entries_come_in_the_order_of_their_paths_with_any_number_of_names_held() {
    let temp = tempfile::tempdir().expect("a directory");
    let mut expected = BTreeMap::new();
    for dir in ["", "a", "a-b", "a/b", "a/b.c", "a0", "z%"] {
        fs::create_dir_all(temp.path().join(dir)).expect("made");
        for number in 0..20 {
            let name = Path::new(dir).join(format!("{number}"));
            fs::write(temp.path().join(&name), "").expect("written");
            expected.insert(escaped(name.as_os_str().as_bytes()), ());
        }
        if !dir.is_empty() {
            expected.insert(escaped(dir.as_bytes()), ());
        }
    }
    for names_max in [1, 2, 7, 1000] {
        let mut found = vec![];
        walk_holding(temp.path(), names_max, |entry| {
            found.push(entry.path.to_owned());
            Ok(())
        })
        .expect("read");
        assert_eq!(found, expected.keys().cloned().collect::<Vec<_>>(), "{names_max}");
    }
}

#[test]
fn names_survive_as_text() {
    for name in [&b"plain"[..], b"%", b"%25", b"\xff%\n", "ä%zz".as_bytes(), b"%a"] {
        assert_eq!(unescaped(&escaped(name)), name, "{}", name.escape_ascii());
    }
}

#[test]
fn a_tree_nested_deeper_than_descriptors_and_paths_allow_is_hashed() {
    let temp = tempfile::tempdir().expect("a directory");
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    let mut dir = Dir::open(temp.path(), flags, Mode::empty()).expect("open");
    for _ in 0..2000 {
        mkdirat(&dir, "deep-deep", Mode::S_IRWXU).expect("made");
        dir = Dir::openat(&dir, "deep-deep", flags, Mode::empty()).expect("open");
    }
    let file = nix::fcntl::openat(&dir, "file", OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRWXU);
    File::from(file.expect("made")).write_all_at(b"found", 0).expect("written");
    // Read after the deep ones: the way back up is right, too.
    fs::write(temp.path().join("last"), "x").expect("written");
    let (manifest, summary) = write_tree(temp.path(), vec![]).expect("read");
    assert_eq!((summary.files, summary.bytes), (2, 6));
    assert_eq!(manifest.split(|byte| *byte == b'\n').count(), 2003);
    assert_eq!(compare(&manifest[..], temp.path()).expect("read").differences_total, 0);
    super::super::super::remove_tree::remove_tree(&temp.path().join("deep-deep")).expect("removed");
}

#[test]
fn a_hole_of_terabytes_is_hashed_at_once_and_its_hash_does_not_depend_on_allocation() {
    const HOLE: u64 = 15 << 40;
    let temp = tempfile::tempdir().expect("a directory");
    let write = |name: &str, size: u64, parts: &[(u64, &[u8])]| {
        let file = File::create(temp.path().join(name)).expect("made");
        file.set_len(size).expect("set");
        parts.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).expect("written"));
    };
    write("huge", HOLE, &[(7 << 40, b"here"), (HOLE - 3, b"end")]);
    let huge = entry(temp.path(), "huge");
    assert_eq!((huge.bytes, huge.sha256, huge.held_bytes), (Some(HOLE), None, Some(8192)));
    // The zeros of one are allocated, those of the other are not.
    let zeros = vec![0; 2 << 20];
    write("hole", 2 << 20, &[(4096, b"x")]);
    write("zeros", 2 << 20, &[(0, &zeros), (4096, b"x")]);
    let (hole, written) = (entry(temp.path(), "hole"), entry(temp.path(), "zeros"));
    assert!(hole.sparse_sha256.is_some());
    assert_eq!((&hole.sparse_sha256, hole.held_bytes), (&written.sparse_sha256, written.held_bytes));
    write("moved", 2 << 20, &[(8192, b"x")]);
    write("longer", (2 << 20) + 1, &[(4096, b"x")]);
    for other in ["moved", "longer"] {
        assert_ne!(entry(temp.path(), other).sparse_sha256, hole.sparse_sha256, "{other}");
    }
    let (_, summary) = write_tree(temp.path(), vec![]).expect("read");
    assert_eq!(summary.bytes, 8192 + 4 * 4096, "holes are no bytes");
}

#[test]
fn an_ordinary_file_has_the_sha256_of_its_bytes_holes_included() {
    use sha2::{Digest, Sha256};
    let temp = tempfile::tempdir().expect("a directory");
    for (name, size, parts) in [
        ("small", 1_000_000_usize, vec![(5_usize, 10_usize)]),
        ("large", 3 << 20, vec![(0, 400_000), (1 << 20, 100_000), ((3 << 20) - 1, 1)]),
        ("empty", 0, vec![]),
    ] {
        let file = File::create(temp.path().join(name)).expect("made");
        file.set_len(size as u64).expect("set");
        for (at, length) in parts {
            file.write_all_at(&vec![7; length], at as u64).expect("written");
        }
        let whole =
            super::super::content_hash::hex(&Sha256::digest(fs::read(temp.path().join(name)).expect("read")));
        let found = entry(temp.path(), name);
        assert_eq!((found.sha256, found.held_bytes), (Some(whole), None), "{name}");
    }
}

#[test]
fn parts_of_a_file_are_joined_until_they_are_few() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("file");
    let file = File::create_new(&path).expect("made");
    let size = 64 << 20;
    file.set_len(size).expect("set");
    (0..16_u64).for_each(|part| file.write_all_at(b"x", part << 22).expect("written"));
    let file = File::open(path).expect("open");
    let all = extents(&file, size, 4096, 100).expect("read");
    assert_eq!(all.parts.len(), 16);
    assert_eq!(all.parts[1].start, 1 << 22);
    let few = extents(&file, size, 4096, 4).expect("read");
    assert!((1..=4).contains(&few.parts.len()) && few.data_bytes == all.data_bytes, "{few:?}");
    let covers = |part: &Extent| few.parts.iter().any(|few| few.start <= part.start && part.end <= few.end);
    assert!(all.parts.iter().all(covers), "{few:?}");
}

/// The same files have the same manifest by every means, at rest and while the sandbox goes on; FIFOs and sockets are kept
/// and are in no manifest.
#[test]
fn the_manifest_does_not_depend_on_the_means() {
    let mut manifests = vec![];
    for (kind, means, ids) in all_ways() {
        let host = Host::on(kind, means, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        as_owner(&workspace, || {
            let app = workspace.join("workspace/app");
            for (name, kind) in [("fifo", SFlag::S_IFIFO), ("socket", SFlag::S_IFSOCK)] {
                mknod(&app.join(name), kind, Mode::S_IRWXU, 0).expect("made");
            }
            File::create(app.join("sparse")).and_then(|file| file.set_len(1 << 40)).expect("made");
        });
        for meanwhile in [None, Some(&(|| ()) as &dyn Fn())] {
            let snapshot = host.take(&sandbox, &Excludes::default(), meanwhile);
            manifests.push((kind, means, host.workspaces().write_manifest(&snapshot).expect("read").sha256));
            let (_, fork) = host.fork(&snapshot);
            let app = fork.join("workspace/app");
            for name in ["fifo", "socket"] {
                assert!(fs::symlink_metadata(app.join(name)).is_ok(), "{kind} {means} {name}");
            }
            let sparse = fs::metadata(app.join("sparse")).expect("there");
            assert_eq!((sparse.len(), sparse.blocks()), (1 << 40, 0), "{kind} {means}");
        }
    }
    assert!(manifests.iter().all(|(_, _, sha256)| *sha256 == manifests[0].2), "{manifests:?}");
}

#[test]
fn a_snapshot_that_is_removed_meanwhile_leaves_no_manifest() {
    let host = Host::on("host", SnapshotMethod::Copy, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    host.make(&sandbox);
    let snapshot = host.take(&sandbox, &Excludes::default(), None);
    host.workspaces().remove_snapshot(&snapshot).expect("removed");
    let error = host.workspaces().write_manifest(&snapshot).expect_err("it is gone");
    assert_eq!(error.to_string(), "the snapshot was deleted meanwhile");
    assert_eq!(fs::read_dir(host.layout.snapshots()).expect("there").count(), 0);
    assert_eq!(fs::read_dir(host.layout.trash()).expect("there").count(), 0);
}
