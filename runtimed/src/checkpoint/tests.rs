//! Runs the installed git, as the user who runs the tests.

use super::main::answer;
use super::{Reply, Request, Verb};
use protocol::{ChangeKind, Changes, TaskId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

pub(super) struct CheckpointFixture {
    pub home: TempDir,
}

impl CheckpointFixture {
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::create_dir(home.path().join("app")).expect("made");
        Self { home }
    }

    pub fn app(&self) -> std::path::PathBuf {
        self.home.path().join("app")
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.app().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    pub fn ask(&self, verb: Verb) -> Reply {
        self.answer(verb).0
    }

    /// The reply, and all that is written.
    pub fn answer(&self, verb: Verb) -> (Reply, Vec<u8>) {
        let task = TaskId::parse("t1").expect("a good name");
        let request = Request { repository: self.repository(), work_tree: self.app(), task, verb };
        let mut written = Vec::new();
        let reply = answer(&request, &mut written).expect("written");
        (reply, written)
    }

    pub fn repository(&self) -> std::path::PathBuf {
        self.home.path().join(".slipway/checkpoints.git")
    }

    pub fn take(&self) -> String {
        let reply = self.ask(Verb::Take);
        let Reply::Taken { id, .. } = reply else { panic!("{reply:?}") };
        id
    }

    fn changes(&self, since: &str) -> Changes {
        let reply = self.ask(Verb::Changes { since: since.to_owned(), index: None });
        let Reply::Changed(changes) = reply else { panic!("{reply:?}") };
        changes
    }
}

fn rows(changes: &Changes) -> Vec<(&str, ChangeKind, Option<u64>, Option<u64>)> {
    let row = |file: &'_ protocol::FileChange| (file.change, file.added_lines, file.deleted_lines);
    changes
        .files
        .iter()
        .map(|file| (file.path.data.as_str(), row(file)))
        .map(|(n, (c, a, d))| (n, c, a, d))
        .collect()
}

#[test]
fn changes_are_reported_file_by_file() {
    use ChangeKind::{Added, Deleted, Modified};
    let fixture = CheckpointFixture::new();
    for (name, text) in [("a", "1\n2\n"), ("old name", "x\n"), ("dir/same", "s\n"), ("becomes/dir", "d\n")] {
        fixture.write(name, text);
    }
    fixture.write(".gitignore", "ignored\n");
    fixture.write("binary", b"\0\x01\x02");
    let before = fixture.take();
    assert_eq!(fixture.changes(&before), Changes::default());
    fixture.write("a", "1\n3\n4\n");
    fixture.write("new\nline", "n\n");
    fixture.write("ignored", "i\n");
    fixture.write("binary", b"\0\x01\x03");
    fs::rename(fixture.app().join("old name"), fixture.app().join("new name")).expect("moved");
    fs::remove_dir_all(fixture.app().join("becomes")).expect("removed");
    fixture.write("becomes", "a file\n");
    let changes = fixture.changes(&before);
    let expected = [
        ("a", Modified, Some(2), Some(1)),
        ("becomes", Added, Some(1), Some(0)),
        ("becomes/dir", Deleted, Some(0), Some(1)),
        ("binary", Modified, None, None),
        ("new\nline", Added, Some(1), Some(0)),
        ("new name", Added, Some(1), Some(0)),
        ("old name", Deleted, Some(0), Some(1)),
    ];
    let mut rows = rows(&changes);
    rows.sort_by_key(|row| row.0);
    let mut expected = expected.to_vec();
    expected.sort_by_key(|row| row.0);
    assert_eq!(rows, expected);
    assert_eq!((changes.added, changes.modified, changes.deleted), (3, 2, 2));
    assert_eq!((changes.added_lines, changes.deleted_lines), (5, 3));
    assert!(!changes.truncated);
    let later = fixture.take();
    assert_ne!(later, before);
    assert_eq!(fixture.changes(&later), Changes::default());
}

#[test]
fn strange_files_are_left_out_and_nested_repositories_are_files() {
    let fixture = CheckpointFixture::new();
    fixture.write("kept", "k\n");
    fixture.write("nested/.git/HEAD", "ref: refs/heads/main\n");
    fixture.write("nested/.git/objects/x", "");
    fixture.write("nested/.git/refs/x", "");
    fixture.write("nested/inner", "i\n");
    nix::unistd::mkfifo(&fixture.app().join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("made");
    let _socket = std::os::unix::net::UnixListener::bind(fixture.app().join("socket")).expect("bound");
    let large = fs::File::create(fixture.app().join("large")).expect("made");
    large.set_len(crate::limits::CHECKPOINT_FILE_MAX_BYTES + 1).expect("sparse");
    let Reply::Taken { id, skipped, .. } = fixture.ask(Verb::Take) else { panic!("not taken") };
    assert_eq!(skipped, 1);
    fixture.write("nested/inner", "changed\n");
    fixture.write("nested/more", "m\n");
    fs::remove_file(fixture.app().join("fifo")).expect("removed");
    let changes = fixture.changes(&id);
    let names: Vec<&str> = changes.files.iter().map(|file| file.path.data.as_str()).collect();
    assert_eq!(names, ["nested/inner", "nested/more"]);
}

#[test]
fn a_file_that_grew_too_large_is_modified_not_deleted() {
    let fixture = CheckpointFixture::new();
    fixture.write("log", "1\n");
    let before = fixture.take();
    let file = fs::OpenOptions::new().write(true).open(fixture.app().join("log")).expect("there");
    file.set_len(crate::limits::CHECKPOINT_FILE_MAX_BYTES + 1).expect("sparse");
    let changes = fixture.changes(&before);
    assert_eq!(rows(&changes), [("log", ChangeKind::Modified, None, None)]);
}

#[test]
fn damage_and_leftovers_in_the_private_repository_are_no_obstacle() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    let before = fixture.take();
    let repository = fixture.repository();
    let hook = fixture.home.path().join("ran");
    for (name, text) in [
        ("index", "no index".to_owned()),
        ("index.lock", String::new()),
        ("config", format!("[core]\n\tfsmonitor = touch {}\n", hook.display())),
        ("info/attributes", "* filter=evil\n".to_owned()),
    ] {
        fs::write(repository.join(name), text).expect("written");
    }
    fs::create_dir_all(repository.join("hooks")).expect("made");
    let script = repository.join("hooks/reference-transaction");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", hook.display())).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("mode");
    fixture.write("a", "2\n");
    assert_eq!(fixture.changes(&before).modified, 1);
    fixture.take();
    assert!(!hook.exists(), "something ran");
}

#[test]
fn no_directory_is_an_answer() {
    let fixture = CheckpointFixture::new();
    fs::remove_dir(fixture.app()).expect("removed");
    let Reply::Unavailable { why } = fixture.ask(Verb::Take) else { panic!("taken of nothing") };
    assert!(why.contains("app"), "{why}");
    assert!(!Path::new(&fixture.app()).exists());
}
