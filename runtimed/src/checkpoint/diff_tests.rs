//! Documents of changes, made by the installed git: each is applied to the state before and must give the state after.

use super::tests::CheckpointFixture;
use super::{Reply, Verb};
use crate::limits::{
    CHANGED_FILE_MAX_BYTES, CHANGES_DIFF_MAX_BYTES, CHANGES_LISTED_MAX, FILE_DIFF_MAX_BYTES,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{
    ChangeKind, ChangedFile, ChangesHead, ChangesTotals, DiffRequest, Encoding, FileDiff, Payload,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

struct Document {
    totals: ChangesTotals,
    files: Vec<(Vec<u8>, ChangedFile)>,
    diffs: BTreeMap<usize, Vec<u8>>,
}

impl Document {
    fn parse(written: &[u8]) -> Self {
        let mut rest = written;
        let mut line = || {
            let end = rest.iter().position(|byte| *byte == b'\n').expect("a whole line");
            let (line, after) = rest.split_at(end);
            rest = &after[1..];
            line
        };
        line();
        let head = serde_json::from_slice(line()).expect("a head");
        let ChangesHead::Changed(totals) = head else { panic!("{head:?}") };
        let file = |json: &[u8]| -> (Vec<u8>, ChangedFile) {
            let file: ChangedFile = serde_json::from_slice(json).expect("a file");
            let name = match file.path.encoding {
                Encoding::Utf8 => file.path.data.clone().into_bytes(),
                Encoding::Base64 => STANDARD.decode(&file.path.data).expect("base64"),
            };
            (name, file)
        };
        let files = (0..totals.files).map(|_| file(line())).collect();
        let mut diffs = BTreeMap::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').expect("a whole line");
            let diff: FileDiff = serde_json::from_slice(&rest[..end]).expect("a diff");
            let (bytes, after) = rest[end + 1..].split_at(diff.bytes as usize);
            diffs.insert(diff.file as usize, bytes.to_vec());
            rest = &after[1..];
        }
        Self { totals, files, diffs }
    }

    fn at(&self, name: &[u8]) -> usize {
        self.files.iter().position(|(each, _)| each == name).expect("listed")
    }

    fn patch(&self) -> Vec<u8> {
        self.diffs.values().flatten().copied().collect()
    }
}

fn changes(fixture: &CheckpointFixture, since: &str) -> Document {
    let (reply, written) = fixture.answer(Verb::Changes { since: since.to_owned(), index: None });
    assert!(matches!(reply, Reply::Changed(_)), "{reply:?}");
    Document::parse(&written)
}

/// Every file with its mode and content; of a link where it points.
fn state(dir: &Path) -> BTreeMap<Vec<u8>, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).expect("a directory").flatten() {
            let (path, meta) = (entry.path(), entry.metadata().expect("there"));
            if meta.is_dir() {
                left.push(path);
                continue;
            }
            let content = match meta.is_symlink() {
                true => fs::read_link(&path).expect("a link").into_os_string().into_vec(),
                false => fs::read(&path).expect("read"),
            };
            let name = path.strip_prefix(dir).expect("below").as_os_str().as_bytes().to_vec();
            // Git knows only whether a file can be executed.
            found.insert(name, (meta.permissions().mode() & 0o170_100, content));
        }
    }
    found
}

fn run(dir: &Path, argv: &[&str]) {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(dir).env("GIT_CEILING_DIRECTORIES", "/").env("HOME", "/nonexistent");
    #[expect(clippy::disallowed_methods, reason = "a test has no other waiter")]
    let output = command.output().expect("runs");
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The patch, applied to a copy of the state before, gives the state after.
fn applies(before: &Path, patch: &[u8], after: &Path) {
    let file = before.with_extension("patch");
    fs::write(&file, patch).expect("written");
    run(before, &["git", "apply", "--whitespace=nowarn", file.to_str().expect("text")]);
    assert_eq!(state(before), state(after));
}

/// Files before a task, and those that it writes.
const BEFORE: &[(&str, &[u8])] = &[
    ("modified", b"1\n2\n3\n"),
    ("unchanged", b"u\n"),
    ("deleted", b"d\n"),
    ("deleted empty", b""),
    ("no newline", b"a\nb"),
    ("gets newline", b"a\nb"),
    ("mode", b"#!/bin/sh\n"),
    ("mode and text", b"x\n"),
    ("binary", b"\0\x01\x02"),
    ("binary deleted", b"\0\x09"),
    ("latin1", b"caf\xe9\n"),
    ("becomes link", b"text\n"),
    ("becomes/dir", b"d\n"),
    ("dir/file", b"f\n"),
    ("looks like", b"diff --git a/x b/x\n--- a/x\n+++ b/x\n"),
    (".gitattributes", b"* binary diff=evil\n*.txt -diff\n"),
    ("shown.txt", b"1\n"),
];
const AFTER: &[(&str, &[u8])] = &[
    ("modified", b"1\ntwo\n3\n4\n"),
    ("no newline", b"a\nc"),
    ("gets newline", b"a\nb\n"),
    ("mode and text", b"y\n"),
    ("binary", b"\0\x01\x03\xff"),
    ("latin1", b"caf\xe8\n"),
    ("looks like", b"diff --git a/y b/y\n--- a/y\n+++ b/y\n"),
    ("added", b"new\n"),
    ("added empty", b""),
    ("added binary", b"\0\0\0"),
    ("quote\"back\\slash\ttab\nline", b"q\n"),
    ("crlf", b"a\r\nb\r\n"),
    ("deep/er/new", b"n\n"),
    ("shown.txt", b"2\n"),
];

#[test]
fn the_diff_leads_from_the_state_before_to_the_state_after() {
    let fixture = CheckpointFixture::new();
    let app = fixture.app();
    let name = |bytes: &[u8]| app.join(OsStr::from_bytes(bytes));
    for (file, content) in BEFORE {
        fixture.write(file, content);
    }
    fs::write(name(b"caf\xe9 name"), "n\n").expect("written");
    symlink("unchanged", app.join("link")).expect("linked");
    let before = fixture.home.path().join("before");
    run(fixture.home.path(), &["cp", "-a", "app", "before"]);
    let since = fixture.take();

    for (file, content) in AFTER {
        fixture.write(file, content);
    }
    fs::write(name(b"caf\xe9 name"), "m\n").expect("written");
    for file in ["deleted", "deleted empty", "binary deleted", "becomes link", "link"] {
        fs::remove_file(app.join(file)).expect("removed");
    }
    symlink("unchanged", app.join("becomes link")).expect("linked");
    symlink("modified", app.join("link")).expect("linked");
    fs::remove_dir_all(app.join("becomes")).expect("removed");
    fixture.write("becomes", b"a file\n");
    for file in ["mode", "mode and text"] {
        fs::set_permissions(app.join(file), fs::Permissions::from_mode(0o755)).expect("mode");
    }

    let document = changes(&fixture, &since);
    assert_eq!(document.totals.since, since);
    assert_eq!(document.diffs.len(), document.files.len(), "every diff is kept");
    let row = |file: &[u8]| {
        let file = &document.files[document.at(file)].1;
        (file.change, file.added_lines, file.deleted_lines, file.binary)
    };
    for (file, expected) in [
        (&b"modified"[..], (ChangeKind::Modified, Some(2), Some(1), false)),
        (b"binary", (ChangeKind::Modified, None, None, true)),
        (b"latin1", (ChangeKind::Modified, Some(1), Some(1), false)),
        (b"added empty", (ChangeKind::Added, Some(0), Some(0), false)),
        (b"mode", (ChangeKind::Modified, Some(0), Some(0), false)),
        (b"deleted", (ChangeKind::Deleted, Some(0), Some(1), false)),
        (b"caf\xe9 name", (ChangeKind::Modified, Some(1), Some(1), false)),
        (b"shown.txt", (ChangeKind::Modified, Some(1), Some(1), false)),
    ] {
        assert_eq!(row(file), expected, "{}", String::from_utf8_lossy(file));
    }
    applies(&before, &document.patch(), &app);
}

#[test]
fn a_diff_beyond_a_bound_is_left_out_and_can_be_asked_for() {
    let fixture = CheckpointFixture::new();
    let lines = |count: usize, text: &str| format!("{text}\n").repeat(count);
    fixture.write("a large diff", "");
    fixture.write("a large file", vec![b'x'; CHANGED_FILE_MAX_BYTES as usize + 1]);
    fixture.write("small", "1\n");
    let since = fixture.take();
    fixture.write("a large diff", lines(FILE_DIFF_MAX_BYTES / 8, "1234567"));
    fixture.write("a large file", vec![b'y'; CHANGED_FILE_MAX_BYTES as usize + 1]);
    fixture.write("small", "2\n");
    let document = changes(&fixture, &since);
    assert_eq!(document.files.len(), 3);
    assert_eq!(document.diffs.keys().collect::<Vec<_>>(), [&document.at(b"small")]);
    // The files of today do not matter.
    fixture.write("a large diff", "later\n");
    for name in ["a large diff", "a large file", "small"] {
        let path = Payload { data: name.to_owned(), encoding: Encoding::Utf8 };
        let (since, until) = (since.clone(), document.totals.until.clone());
        let (reply, written) = fixture.answer(Verb::Diff(DiffRequest { since, until, path }));
        assert_eq!(reply, Reply::Compared);
        let one = Document::parse(&written);
        assert_eq!((one.files.len(), one.diffs.len()), (1, usize::from(name != "a large file")), "{name}");
        assert!(!String::from_utf8_lossy(&one.patch()).contains("later"));
    }
}

#[test]
fn all_diffs_together_and_the_list_have_bounds() {
    let fixture = CheckpointFixture::new();
    let since = fixture.take();
    let text = "0123456\n".repeat(24 << 10);
    for at in 0..30 {
        fixture.write(&format!("large/{at:02}"), &text);
    }
    for at in 0..CHANGES_LISTED_MAX {
        fixture.write(&format!("many/{at:05}"), "1\n");
    }
    let document = changes(&fixture, &since);
    assert_eq!(document.files.len(), CHANGES_LISTED_MAX);
    assert_eq!(document.totals.added, 30 + CHANGES_LISTED_MAX as u64);
    let bytes = document.patch().len();
    assert!(
        bytes <= CHANGES_DIFF_MAX_BYTES && bytes > CHANGES_DIFF_MAX_BYTES - FILE_DIFF_MAX_BYTES,
        "{bytes}"
    );
    assert!(document.diffs.contains_key(&30), "small ones still fit");
}

/// The path of a loose object.
fn object(fixture: &CheckpointFixture, id: &str) -> std::path::PathBuf {
    fixture.repository().join("objects").join(&id[..2]).join(&id[2..])
}

#[test]
fn a_changed_checkpoint_gives_no_diff() {
    type Tamper = fn(&CheckpointFixture, &str);
    let replaced_blob: Tamper = |fixture, _| {
        // The blob of "secret\n" gets the content of another one.
        let (of, by) =
            ("d97c5eada5d8c52079031eef0107a4430a9617c5", "af4c3e6e5de75cbd6a8fd67dc6b742c538a44294");
        let target = object(fixture, of);
        assert!(target.exists() && object(fixture, by).exists());
        fs::remove_file(&target).expect("removed");
        fs::copy(object(fixture, by), target).expect("copied");
    };
    let gone: Tamper = |fixture, _| fs::remove_dir_all(fixture.repository()).expect("removed");
    let commit_gone: Tamper = |fixture, since| fs::remove_file(object(fixture, since)).expect("removed");
    let commit_replaced: Tamper = |fixture, since| {
        let later = fixture.take();
        let target = object(fixture, since);
        fs::remove_file(&target).expect("removed");
        fs::copy(object(fixture, &later), target).expect("copied");
    };
    for (what, tamper) in [
        ("blob", replaced_blob),
        ("repository", gone),
        ("commit", commit_gone),
        ("another commit", commit_replaced),
    ] {
        let fixture = CheckpointFixture::new();
        fixture.write("a", "secret\n");
        fixture.write("other", "harmless\n");
        let since = fixture.take();
        fixture.write("a", "changed\n");
        tamper(&fixture, &since);
        let (reply, written) = fixture.answer(Verb::Changes { since, index: None });
        assert!(matches!(reply, Reply::Unavailable { .. }), "{what}: {reply:?}");
        let head = written.split(|byte| *byte == b'\n').nth(1).expect("a head");
        let head: ChangesHead = serde_json::from_slice(head).expect("a head");
        assert!(matches!(head, ChangesHead::Lost { .. }), "{what}: {head:?}");
    }
}

#[test]
fn an_index_of_the_agent_hides_nothing() {
    for hides in ["--assume-unchanged", "--skip-worktree"] {
        let fixture = CheckpointFixture::new();
        fixture.write("a", "1\n");
        fixture.write("b", "1\n");
        let (Reply::Taken { id: since, index, .. }, _) = fixture.answer(Verb::Take) else {
            panic!("not taken")
        };
        fixture.write("a", "2\n");
        fixture.write("b", "2\n");
        let repository = fixture.repository();
        let git_dir = format!("--git-dir={}", repository.display());
        let work_tree = format!("--work-tree={}", fixture.app().display());
        run(&fixture.app(), &["git", &git_dir, &work_tree, "update-index", hides, "a"]);
        let (_, written) = fixture.answer(Verb::Changes { since, index });
        assert_eq!(Document::parse(&written).files.len(), 2, "{hides}");
    }
}
