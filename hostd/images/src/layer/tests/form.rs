//! What a layer looks like on disk.

use super::{Fixture, is_opaque, listing, unpacked, xattr};
use crate::{
    Digest, TreeQuota,
    layer::unpack_archive_within,
    tar_fixture::{archive, directory, file, gzip, hard_link, member, other, symlink, zstd},
};
use std::{fs, os::unix::fs::MetadataExt};

#[test]
fn entries_keep_owner_mode_time_and_target() {
    let lines = unpacked(&[
        directory("./").mode(0o711),
        directory("home/user/").mode(0o555).owner(1000, 100).mtime(5),
        file("home/user/.profile", "x").mode(0o600).owner(1000, 1000).mtime(7),
        file("/absolute", "y").owner(65_535, 65_535),
        directory("tmp").mode(0o1777).mtime(6),
        directory("shared").mode(0o2775).owner(0, 50),
        file("shared/inherits", "no"),
        file("bin/su", "z").mode(0o4755),
        symlink("bin/sh", "/usr/bin/dash").owner(3, 4).mtime(8),
        hard_link("bin/same", "./bin/su"),
        hard_link("bin/sh2", "/bin/sh"),
    ]);
    assert_eq!(
        lines,
        [
            "absolute f644 65535:65535 1000000000 y",
            "bin d755 0:0 now",
            "bin/same f4755 0:0 1000000000 z",
            "bin/sh l777 3:4 8 -> /usr/bin/dash",
            "bin/sh2 l777 3:4 8 -> /usr/bin/dash",
            "bin/su f4755 0:0 1000000000 z",
            "home d755 0:0 now",
            "home/user d555 1000:100 5",
            "home/user/.profile f600 1000:1000 7 x",
            "shared d2775 0:50 1000000000",
            "shared/inherits f644 0:0 1000000000 no",
            "tmp d1777 0:0 6",
        ]
    );
}

#[test]
fn the_root_has_the_attributes_of_its_entry() {
    let fixture = Fixture::new();
    fixture.unpack(&[directory("./").mode(0o711).owner(1, 2).mtime(9), file("a", "")]).expect("accepted");
    let meta = fs::metadata(&fixture.to).expect("there");
    assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid(), meta.mtime()), (0o711, 1, 2, 9));
}

#[test]
fn whiteouts_take_the_form_of_overlayfs() {
    let lines = unpacked(&[
        file("a/.wh.gone", ""),
        directory("b"),
        file("b/.wh..wh..opq", ""),
        file("b/new", ""),
        other(b'3', ".wh.device"),
        hard_link(".wh.linked", ".wh..wh.plnk/1"),
        directory(".wh..wh.plnk"),
        file(".wh..wh.plnk/1", "x"),
        file(".wh..wh.aufs", ""),
    ]);
    assert_eq!(
        lines,
        [
            "a d755 0:0 now",
            "a/gone c0 0:0 now 0",
            "b d755 0:0 1000000000 opaque",
            "b/new f644 0:0 1000000000",
            "device c0 0:0 now 0",
            "linked c0 0:0 now 0",
        ]
    );
}

/// The order of a whiteout and of what its own layer has does not matter.
#[test]
fn a_whiteout_does_not_hide_its_own_layer() {
    for entries in [
        [file(".wh.d", ""), file("d/in", "x"), file(".wh.f", ""), file("f", "y")],
        [file("d/in", "x"), file(".wh.d", ""), file("f", "y"), file(".wh.f", "")],
    ] {
        let expected = ["d d755 0:0 now opaque", "d/in f644 0:0 1000000000 x", "f f644 0:0 1000000000 y"];
        assert_eq!(unpacked(&entries), expected);
    }
}

#[test]
fn a_later_entry_replaces_an_earlier_one() {
    let full = [directory("x"), file("x/a/b/c", "1"), file("x/.wh.d", ""), symlink("x/e", "/")];
    let table = [
        (vec![file("x", "1"), file("x", "22").mode(0o600)], vec!["x f600 0:0 1000000000 22"]),
        ([&full[..], &[file("x", "1")]].concat(), vec!["x f644 0:0 1000000000 1"]),
        ([&full[..], &[symlink("x", "y")]].concat(), vec!["x l777 0:0 1000000000 -> y"]),
        (vec![file("x", "1"), directory("x").mode(0o700)], vec!["x d700 0:0 1000000000 opaque"]),
        (vec![symlink("x", "/"), directory("x")], vec!["x d755 0:0 1000000000 opaque"]),
        (
            vec![file("x", "1"), hard_link("y", "x"), file("x", "2")],
            vec!["x f644 0:0 1000000000 2", "y f644 0:0 1000000000 1"],
        ),
        (
            vec![directory("x").mode(0o700).mtime(3), file("x/a", "1"), directory("x").mode(0o755).mtime(4)],
            vec!["x d755 0:0 4", "x/a f644 0:0 1000000000 1"],
        ),
        (
            vec![directory("x/y"), file("x/y/1", "1"), file("x/y", "f"), file("x/z", "2")],
            vec!["x d755 0:0 now", "x/y f644 0:0 1000000000 f", "x/z f644 0:0 1000000000 2"],
        ),
        (vec![file("x", "1"), hard_link("x", "x")], vec!["x f644 0:0 1000000000 1"]),
    ];
    for (entries, expected) in table {
        assert_eq!(unpacked(&entries), expected, "{entries:?}");
    }
}

#[test]
fn capabilities_and_attributes_of_users_are_kept_and_others_dropped() {
    // CAP_DAC_OVERRIDE and CAP_FOWNER, permitted and effective: a value with a line feed.
    let capability = b"\x01\0\0\x02\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let fixture = Fixture::new();
    fixture
        .unpack(&[
            file("tool", "x")
                .owner(5, 5)
                .xattr("security.capability", capability)
                .xattr("user.note", "hello")
                .xattr("trusted.overlay.metacopy", "")
                .xattr("trusted.overlay.redirect", "/etc")
                .xattr("security.selinux", "x")
                .xattr("system.posix_acl_access", "x"),
            directory("dir").xattr("user.note", "there").xattr("trusted.overlay.opaque", "y"),
        ])
        .expect("accepted");
    let tool = fixture.to.join("tool");
    assert_eq!(xattr(&tool, "security.capability").as_deref(), Some(&capability[..]));
    assert_eq!(xattr(&tool, "user.note").as_deref(), Some(&b"hello"[..]));
    for name in ["trusted.overlay.metacopy", "trusted.overlay.redirect", "security.selinux"] {
        assert_eq!(xattr(&tool, name), None, "{name}");
    }
    assert_eq!(xattr(&fixture.to.join("dir"), "user.note").as_deref(), Some(&b"there"[..]));
    assert!(!is_opaque(&fixture.to.join("dir")));
}

#[test]
fn what_was_unusual_is_counted() {
    let fixture = Fixture::new();
    let entries = [
        file("implied/suid", "12").mode(0o4755),
        file("sgid", "345").mode(0o2755),
        directory("dir").mode(0o2755),
        file("foreign", "").owner(65_536, 0).mode(0o4755),
        file("huge", "").pax("gid", "4294967296"),
        other(b'3', "dev/null"),
        other(b'4', "dev/sda"),
        other(b'6', "fifo"),
        other(b'V', "volume"),
        file(".wh..wh..opq", ""),
    ];
    let bytes = archive(&entries);
    let layer = fixture.unpack_bytes(&bytes).expect("accepted");
    assert_eq!((layer.bytes, layer.entries, layer.set_id_files), (5, 10, 2));
    assert_eq!((layer.skipped, layer.owners_replaced, layer.is_root_opaque), (4, 2, true));
    assert_eq!((layer.implied_directories, layer.diff_id), (1, Digest::of(&bytes)));
    assert_eq!(
        listing(&fixture.to),
        [
            "dir d2755 0:0 1000000000",
            "foreign f755 65534:0 1000000000",
            "huge f644 0:65534 1000000000",
            "implied d755 0:0 now",
            "implied/suid f4755 0:0 1000000000 12",
            "sgid f2755 0:0 1000000000 345",
        ]
    );
}

#[test]
fn sparse_files_have_holes() {
    let mut bytes = vec![];
    let number =
        |field: &mut [u8; 12], value: u64| field[..11].copy_from_slice(format!("{value:011o}").as_bytes());
    member(&mut bytes, (b'S', b"holes", b""), b"abcdef", |header| {
        let gnu = header.as_gnu_mut().expect("made so");
        number(&mut gnu.realsize, 1 << 20);
        for (field, (offset, length)) in gnu.sparse.iter_mut().zip([(4096, 4), (1 << 19, 2)]) {
            number(&mut field.offset, offset);
            number(&mut field.numbytes, length);
        }
    });
    let fixture = Fixture::new();
    fixture.unpack_bytes(&bytes).expect("accepted");
    let content = fs::read(fixture.to.join("holes")).expect("there");
    assert_eq!(
        (content.len(), &content[4096..4101], &content[1 << 19..][..3]),
        (1 << 20, &b"abcd\0"[..], &b"ef\0"[..])
    );
    assert!(fs::metadata(fixture.to.join("holes")).expect("there").blocks() < 100);
}

#[test]
fn layers_may_be_compressed_and_their_digest_is_that_of_all_that_is_inside() {
    let plain = [archive(&[file("a", "x"), file("b", vec![7; 300_000])]), vec![0; 9000], b"padding".to_vec()]
        .concat();
    let (front, back) = plain.split_at(1000);
    let table = [
        ("plain", plain.clone()),
        ("gzip", gzip(&plain)),
        ("gzip of two members", [gzip(front), gzip(back)].concat()),
        ("zstd", zstd(&plain)),
        ("zstd of two frames", [zstd(front), zstd(back)].concat()),
    ];
    for (what, bytes) in table {
        let fixture = Fixture::new();
        let layer = fixture.unpack_bytes(&bytes).expect(what);
        assert_eq!((layer.diff_id, layer.bytes), (Digest::of(&plain), 300_001), "{what}");
    }
}

#[test]
fn an_archive_of_files_has_no_owners_and_no_whiteouts() {
    let fixture = Fixture::new();
    let source = fixture.dir.path().join("seed.tar");
    let entries = [
        directory("./").mode(0o700),
        file(".wh.name", "x").mode(0o6777).owner(5, 6).xattr("user.note", "x"),
        directory("open").mode(0o777).mtime(5),
        file("open/in", "x"),
    ];
    fs::write(&source, archive(&entries)).expect("written");
    let bytes =
        unpack_archive_within(&source, &fixture.to, TreeQuota::new("the seed", 100, 10)).expect("accepted");
    assert_eq!(bytes, 2);
    assert_eq!(
        listing(&fixture.to),
        [".wh.name f775 0:0 1000000000 x", "open d775 0:0 5", "open/in f644 0:0 1000000000 x"]
    );
    assert_eq!(xattr(&fixture.to.join(".wh.name"), "user.note"), None);
    assert_eq!(fs::metadata(&fixture.to).expect("there").mode() & 0o777, 0o755, "as it was");
}
