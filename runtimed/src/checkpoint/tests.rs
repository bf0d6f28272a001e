//! Against the git of the machine, as whoever runs the tests.

use super::main::answer;
use super::{Answer, Request, Verb};
use protocol::{ChangeKind, Changes, TaskId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

struct World {
    home: TempDir,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::create_dir(home.path().join("app")).expect("made");
        Self { home }
    }

    fn app(&self) -> std::path::PathBuf {
        self.home.path().join("app")
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.app().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn ask(&self, verb: Verb) -> Answer {
        let task = TaskId::parse("t1").expect("a good name");
        let repository = self.home.path().join(".slipway/checkpoints.git");
        let request = Request { repository, work_tree: self.app(), task, verb };
        answer(&request).unwrap_or_else(|error| Answer::Unavailable { why: error.to_string() })
    }

    fn take(&self) -> String {
        match self.ask(Verb::Take) {
            Answer::Taken { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    fn changes(&self, since: &str) -> Changes {
        match self.ask(Verb::Changes { since: since.to_owned() }) {
            Answer::Changed(changes) => changes,
            other => panic!("{other:?}"),
        }
    }
}

fn told(changes: &Changes) -> Vec<(&str, ChangeKind, Option<u64>, Option<u64>)> {
    let row = |file: &'_ protocol::FileChange| (file.change, file.added_lines, file.deleted_lines);
    changes
        .files
        .iter()
        .map(|file| (file.path.data.as_str(), row(file)))
        .map(|(n, (c, a, d))| (n, c, a, d))
        .collect()
}

#[test]
fn what_changed_is_told_file_by_file() {
    use ChangeKind::{Added, Deleted, Modified};
    let world = World::new();
    for (name, text) in [("a", "1\n2\n"), ("old name", "x\n"), ("dir/same", "s\n"), ("becomes/dir", "d\n")] {
        world.write(name, text);
    }
    world.write(".gitignore", "ignored\n");
    world.write("binary", b"\0\x01\x02");
    let before = world.take();
    assert_eq!(world.changes(&before), Changes::default());
    world.write("a", "1\n3\n4\n");
    world.write("new\nline", "n\n");
    world.write("ignored", "i\n");
    world.write("binary", b"\0\x01\x03");
    fs::rename(world.app().join("old name"), world.app().join("new name")).expect("moved");
    fs::remove_dir_all(world.app().join("becomes")).expect("removed");
    world.write("becomes", "a file\n");
    let changes = world.changes(&before);
    let expected = [
        ("a", Modified, Some(2), Some(1)),
        ("becomes", Added, Some(1), Some(0)),
        ("becomes/dir", Deleted, Some(0), Some(1)),
        ("binary", Modified, None, None),
        ("new\nline", Added, Some(1), Some(0)),
        ("new name", Added, Some(1), Some(0)),
        ("old name", Deleted, Some(0), Some(1)),
    ];
    let mut rows = told(&changes);
    rows.sort_by_key(|row| row.0);
    let mut expected = expected.to_vec();
    expected.sort_by_key(|row| row.0);
    assert_eq!(rows, expected);
    assert_eq!((changes.added, changes.modified, changes.deleted), (3, 2, 2));
    assert_eq!((changes.added_lines, changes.deleted_lines), (5, 3));
    assert!(!changes.truncated);
    let later = world.take();
    assert_ne!(later, before);
    assert_eq!(world.changes(&later), Changes::default());
}

#[test]
fn strange_files_are_left_out_and_nested_repositories_are_files() {
    let world = World::new();
    world.write("kept", "k\n");
    world.write("nested/.git/HEAD", "ref: refs/heads/main\n");
    world.write("nested/.git/objects/x", "");
    world.write("nested/.git/refs/x", "");
    world.write("nested/inner", "i\n");
    nix::unistd::mkfifo(&world.app().join("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("made");
    let _socket = std::os::unix::net::UnixListener::bind(world.app().join("socket")).expect("bound");
    let large = fs::File::create(world.app().join("large")).expect("made");
    large.set_len(crate::limits::CHECKPOINT_FILE_MAX_BYTES + 1).expect("sparse");
    let Answer::Taken { id, skipped } = world.ask(Verb::Take) else { panic!("not taken") };
    assert_eq!(skipped, 1);
    world.write("nested/inner", "changed\n");
    world.write("nested/more", "m\n");
    fs::remove_file(world.app().join("fifo")).expect("removed");
    let changes = world.changes(&id);
    let names: Vec<&str> = changes.files.iter().map(|file| file.path.data.as_str()).collect();
    assert_eq!(names, ["nested/inner", "nested/more"]);
}

#[test]
fn a_file_that_grew_too_large_is_modified_not_deleted() {
    let world = World::new();
    world.write("log", "1\n");
    let before = world.take();
    let file = fs::OpenOptions::new().write(true).open(world.app().join("log")).expect("there");
    file.set_len(crate::limits::CHECKPOINT_FILE_MAX_BYTES + 1).expect("sparse");
    let changes = world.changes(&before);
    assert_eq!(told(&changes), [("log", ChangeKind::Modified, None, None)]);
}

#[test]
fn damage_and_leftovers_in_the_private_repository_are_no_obstacle() {
    let world = World::new();
    world.write("a", "1\n");
    let before = world.take();
    let repository = world.home.path().join(".slipway/checkpoints.git");
    let hook = world.home.path().join("ran");
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
    world.write("a", "2\n");
    assert_eq!(world.changes(&before).modified, 1);
    world.take();
    assert!(!hook.exists(), "something ran");
}

#[test]
fn no_directory_is_an_answer() {
    let world = World::new();
    fs::remove_dir(world.app()).expect("removed");
    let Answer::Unavailable { why } = world.ask(Verb::Take) else { panic!("taken of nothing") };
    assert!(why.contains("app"), "{why}");
    assert!(!Path::new(&world.app()).exists());
}
