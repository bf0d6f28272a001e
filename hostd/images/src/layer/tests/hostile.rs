//! Archives that try to leave their directory.

use super::Fixture;
use crate::{
    layer::{Refusal, UnpackError},
    tar_fixture::{Entry, directory, file, hard_link, other, symlink},
};
use proptest::{
    collection::vec,
    prelude::{Strategy, any, proptest},
    sample::select,
    test_runner::Config,
};

/// Stands for the absolute path of the directory with the secret.
const OUTSIDE: &str = "@outside";

fn aimed(fixture: &Fixture, mut entries: Vec<Entry>) -> Vec<Entry> {
    for entry in entries.iter_mut().filter(|entry| entry.link == OUTSIDE.as_bytes()) {
        entry.link = fixture.dir.path().join("outside").into_os_string().into_encoded_bytes();
    }
    entries
}

type Row = (&'static str, Vec<Entry>, Refusal);

/// Paths and links that try to leave the directory.
fn ways_out() -> Vec<Row> {
    use Refusal::{LeadsOut, LinkTargetKind, LinkTargetMissing, ThroughFile, ThroughSymlink};
    let outside = "../../outside";
    vec![
        ("a way up", vec![file("../up", "x")], LeadsOut),
        ("a way up inside", vec![file("a/../../up", "x")], LeadsOut),
        ("an absolute way up", vec![file("/../up", "x")], LeadsOut),
        ("a way up by PAX", vec![file("a", "x").pax("path", "../up")], LeadsOut),
        ("through a symlink", vec![symlink("a", outside), file("a/in", "x")], ThroughSymlink),
        ("through an absolute symlink", vec![symlink("a", OUTSIDE), file("a/in", "x")], ThroughSymlink),
        (
            "through a symlink inside",
            vec![directory("b"), symlink("a", "b"), file("a/in", "x")],
            ThroughSymlink,
        ),
        ("a directory through a symlink", vec![symlink("a", outside), directory("a/d")], ThroughSymlink),
        (
            "a whiteout through a symlink",
            vec![symlink("a", outside), file("a/.wh.secret", "")],
            ThroughSymlink,
        ),
        ("opaque through a symlink", vec![symlink("a", outside), file("a/.wh..wh..opq", "")], ThroughSymlink),
        ("a deep symlink", vec![symlink("a/b", "../../../outside"), file("a/b/c/d", "x")], ThroughSymlink),
        ("below a symlink", vec![symlink("a", outside), file("a/sub/in", "x")], ThroughSymlink),
        (
            "a hard link from below a symlink",
            vec![symlink("a", outside), file("b", "x"), hard_link("a/sub/in", "b")],
            ThroughSymlink,
        ),
        ("a whiteout below a symlink", vec![symlink("a", outside), file("a/.wh.sub", "")], ThroughSymlink),
        (
            "opaque below a symlink",
            vec![symlink("a", outside), file("a/sub/.wh..wh..opq", "")],
            ThroughSymlink,
        ),
        ("through a file", vec![file("a", "x"), file("a/b", "y")], ThroughFile),
        ("a hard link up", vec![hard_link("a", "../../outside/secret")], LeadsOut),
        ("a hard link to nothing", vec![hard_link("a", "/etc/passwd")], LinkTargetMissing),
        (
            "a hard link through a symlink",
            vec![symlink("a", outside), hard_link("b", "a/secret")],
            LinkTargetMissing,
        ),
        ("a hard link to the root", vec![hard_link("a", "/")], LinkTargetMissing),
        ("a hard link to a directory", vec![directory("d"), hard_link("a", "d")], LinkTargetKind),
        ("a hard link to a whiteout", vec![file(".wh.d", ""), hard_link("a", "d")], LinkTargetKind),
        ("a hard link to its name", vec![file(".wh.d", ""), hard_link("a", ".wh.d")], LinkTargetMissing),
        ("a hard link to below itself", vec![file("a/b", "x"), hard_link("a", "a/b")], LinkTargetMissing),
    ]
}

/// Entries that cannot be written as they are.
fn invalid_entries() -> Vec<Row> {
    use Refusal::{
        NulByte, PathTooLong, RootNotADirectory, SymlinkTarget, ThroughWhiteout, TooDeep, WhiteoutName,
        XattrInvalid, XattrsTooLarge,
    };
    vec![
        ("a file as root", vec![file("./.", "x")], RootNotADirectory),
        ("a symlink as root", vec![symlink("/", OUTSIDE)], RootNotADirectory),
        ("a whiteout of nothing", vec![file("a/.wh.", "")], WhiteoutName),
        ("a whiteout of .", vec![file(".wh..", "")], WhiteoutName),
        ("a whiteout of ..", vec![file(".wh...", "")], WhiteoutName),
        ("through a whiteout", vec![file(".wh.a/b", "")], ThroughWhiteout),
        ("a NUL in a name", vec![file("a", "x").pax("path", "a\0b")], NulByte),
        ("a NUL in a target", vec![symlink("a", "x").pax("linkpath", "a\0b")], SymlinkTarget),
        ("a symlink to nothing", vec![symlink("a", "")], SymlinkTarget),
        ("a long symlink", vec![symlink("a", "t".repeat(5000))], SymlinkTarget),
        ("a long path", vec![file(format!("{}/", "p".repeat(200)).repeat(30), "")], PathTooLong),
        ("a deep path", vec![file("d/".repeat(300), "")], TooDeep),
        ("large attributes", vec![file("a", "").xattr("user.x", [7; 4000])], XattrsTooLarge),
        ("no capability", vec![file("a", "").xattr("security.capability", "x")], XattrInvalid),
    ]
}

#[test]
fn hostile_entries_are_refused() {
    for (what, entries, expected) in ways_out().into_iter().chain(invalid_entries()) {
        let fixture = Fixture::new();
        let before = fixture.outside();
        match fixture.unpack(&aimed(&fixture, entries)) {
            Err(UnpackError::Refused { refusal, .. }) => assert_eq!(refusal, expected, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(fixture.outside(), before, "{what}");
    }
}

#[test]
fn a_long_name_is_refused_and_shown_in_part() {
    let error = Fixture::new().unpack(&[file("n".repeat(256), "x")]).expect_err("too long").to_string();
    assert_eq!(error, format!("{}… has a name of more than 255 bytes", "n".repeat(200)));
    let error = Fixture::new().unpack(&[file("a\x1b[31m/..", "x")]).expect_err("hostile").to_string();
    assert_eq!(error, "a\\u{1b}[31m/.. leads out of the archive");
}

#[test]
fn deep_paths_and_long_names_within_the_limits_are_accepted() {
    let deep = "d/".repeat(255) + "file";
    let fixture = Fixture::new();
    fixture.unpack(&[file(&deep, "x"), file("n".repeat(255), "y"), file("d", "replaced")]).expect("accepted");
    assert!(fixture.to.join("d").is_file());
}

/// Names that mean something, put together at random.
fn names() -> impl Strategy<Value = Vec<u8>> {
    let part = select(vec![
        "a",
        "b",
        "c",
        "..",
        ".",
        "",
        "link",
        "up",
        "sub",
        ".wh.a",
        ".wh.link",
        ".wh..wh..opq",
        ".wh..",
        "outside",
        "to",
        "secret",
    ]);
    (any::<bool>(), vec(part, 1..5)).prop_map(|(is_absolute, parts)| {
        let start = if is_absolute { "/" } else { "" };
        format!("{start}{}", parts.join("/")).into_bytes()
    })
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let targets =
        select(vec![OUTSIDE, "../../outside", "../../outside/secret", "../..", "..", ".", "a", "link"]);
    let entry = (select(b"0123456S5505".to_vec()), names(), names(), targets, 0..0o10000_u32).prop_map(
        |(kind, name, link, target, mode)| match kind {
            b'0' => file(name, "content").mode(mode),
            b'1' => hard_link(name, link),
            b'2' => symlink(name, target),
            b'5' => directory(name).mode(mode),
            kind => other(kind, name),
        },
    );
    vec(entry, 1..12)
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn nothing_outside_changes(entries in entries()) {
        let fixture = Fixture::new();
        let before = fixture.outside();
        let _ = fixture.unpack(&aimed(&fixture, entries));
        proptest::prop_assert_eq!(fixture.outside(), before);
    }

    #[test]
    fn entries_that_are_refused_do_not_keep_the_others_from_being_safe(entries in entries()) {
        let fixture = Fixture::new();
        let before = fixture.outside();
        for entry in aimed(&fixture, entries) {
            let _ = fixture.unpack(&[entry]);
        }
        proptest::prop_assert_eq!(fixture.outside(), before);
    }
}
