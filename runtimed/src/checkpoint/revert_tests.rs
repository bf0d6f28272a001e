//! Reverts with the installed git: the files afterwards are compared byte by byte with those before.

use super::tests::CheckpointFixture;
use super::{Reply, Verb};
use crate::limits::{CHECKPOINT_FILE_MAX_BYTES, REVERT_LISTED_MAX};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{Encoding, Payload, RevertOutcome, RevertRequest, Reverted};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

impl CheckpointFixture {
    pub fn revert(&self, since: &str, path: Option<&[u8]>, dry_run: bool) -> RevertOutcome {
        let path = path.map(super::changes::payload);
        self.ask_revert(RevertRequest { since: since.to_owned(), path, dry_run, discard: false })
    }

    pub fn discard(&self, since: &str) -> RevertOutcome {
        self.ask_revert(RevertRequest { since: since.to_owned(), path: None, dry_run: false, discard: true })
    }

    fn ask_revert(&self, request: RevertRequest) -> RevertOutcome {
        let (reply, written) = self.answer(Verb::Revert(request));
        assert!(matches!(reply, Reply::Reverted { .. }), "{reply:?}");
        let line = written.split(|byte| *byte == b'\n').nth(1).expect("an outcome");
        serde_json::from_slice(line).expect("an outcome")
    }

    pub fn reverted(&self, since: &str) -> (Vec<String>, Vec<String>) {
        names(self.revert(since, None, false))
    }

    /// Runs git in the app as a user would.
    pub fn user_git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=u", "-c", "user.email=u@localhost"]).args(arguments);
        let status = ended(git.current_dir(self.app()));
        assert!(status, "git {arguments:?}");
    }

    pub fn remove(&self, name: &str) {
        let path = self.app().join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.expect("removed");
    }
}

#[expect(clippy::disallowed_methods, reason = "tests have no other waiter")]
fn ended(command: &mut Command) -> bool {
    command.output().expect("git is installed").status.success()
}

pub fn reverted(outcome: RevertOutcome) -> Reverted {
    let RevertOutcome::Reverted(reverted) = outcome else { panic!("{outcome:?}") };
    reverted
}

pub fn text(name: &Payload) -> String {
    match name.encoding {
        Encoding::Utf8 => name.data.clone(),
        Encoding::Base64 => {
            String::from_utf8_lossy(&STANDARD.decode(&name.data).expect("base64")).into_owned()
        }
    }
}

/// The restored and the deleted files.
pub fn names(outcome: RevertOutcome) -> (Vec<String>, Vec<String>) {
    let done = reverted(outcome);
    assert_eq!(
        (done.restored_files, done.deleted_files),
        (done.restored.len() as u64, done.deleted.len() as u64)
    );
    (done.restored.iter().map(text).collect(), done.deleted.iter().map(text).collect())
}

/// Every file and directory: its mode, and its content or target.
pub fn snapshot(root: &Path) -> BTreeMap<Vec<u8>, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("readable").flatten() {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().expect("there"));
            let content = if meta.is_symlink() {
                fs::read_link(&path).expect("a link").into_os_string().into_vec()
            } else if meta.is_file() {
                fs::read(&path).expect("readable")
            } else {
                if meta.is_dir() {
                    directories.push(path.clone());
                }
                Vec::new()
            };
            let name = path.strip_prefix(root).expect("below").as_os_str().as_bytes().to_vec();
            found.insert(name, (meta.permissions().mode(), content));
        }
    }
    found
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode");
}

/// An app with a repository of its user, whose index has a staged change.
fn user_app() -> CheckpointFixture {
    let fixture = CheckpointFixture::new();
    for (name, content) in [
        (".gitignore", "node_modules/\n*.log\n"),
        ("src/main.js", "one\n"),
        ("src/util/a.js", "a\n"),
        ("file-to-dir", "f\n"),
        ("dir-to-file/x", "x\n"),
        ("dir-to-link/y", "y\n"),
        ("gone", "g\n"),
        ("run.sh", "#!/bin/sh\n"),
        ("private", "p\n"),
        ("node_modules/dep/index.js", "dep\n"),
        ("app.log", "before\n"),
    ] {
        fixture.write(name, content);
    }
    set_mode(&fixture.app().join("run.sh"), 0o755);
    set_mode(&fixture.app().join("private"), 0o600);
    symlink("src/main.js", fixture.app().join("link")).expect("linked");
    fs::create_dir(fixture.app().join("empty")).expect("made");
    fixture.user_git(&["init", "-q"]);
    fixture.user_git(&["add", "-A"]);
    fixture.user_git(&["commit", "-q", "-m", "first"]);
    fixture.write("src/main.js", "two\n");
    fixture.user_git(&["add", "src/main.js"]);
    fixture.write("src/main.js", "three\n");
    fixture
}

#[test]
fn every_file_is_as_before_and_the_users_repository_is_untouched() {
    let fixture = user_app();
    let app = fixture.app();
    let before = snapshot(&app);
    let since = fixture.take();
    fixture.write("src/main.js", "changed\n");
    fixture.write("private", "leaked\n");
    for name in ["gone", "src/util", "file-to-dir", "dir-to-file", "dir-to-link", "link"] {
        fixture.remove(name);
    }
    fixture.write("file-to-dir/deep/er", "1\n");
    fixture.write("dir-to-file", "2\n");
    symlink("src", app.join("dir-to-link")).expect("linked");
    fixture.write("link", "no link\n");
    set_mode(&app.join("run.sh"), 0o644);
    fixture.write("new/dir/file", "n\n");
    let (restored, deleted) = fixture.reverted(&since);
    assert_eq!(
        restored,
        [
            "dir-to-file/x",
            "dir-to-link/y",
            "file-to-dir",
            "gone",
            "link",
            "private",
            "run.sh",
            "src/main.js",
            "src/util/a.js"
        ]
    );
    assert_eq!(deleted, ["dir-to-file", "dir-to-link", "file-to-dir/deep/er", "new/dir/file"]);
    assert_eq!(snapshot(&app), before);
    assert_eq!(fixture.reverted(&since), (vec![], vec![]), "nothing is left to do");
    assert_eq!(snapshot(&app), before);
}

#[test]
fn ignored_files_stay_whatever_the_task_made_of_the_rules() {
    let fixture = user_app();
    fixture.write("venv/.gitignore", "*\n");
    fixture.write("venv/lib.py", "v\n");
    let before = snapshot(&fixture.app());
    let since = fixture.take();
    // Without the rules all of these look new; with others, new files look ignored.
    fixture.write(".gitignore", "hidden\nbuild/\n");
    fixture.write("hidden", "h\n");
    fixture.write("build/out", "o\n");
    fixture.write("build/.gitignore", "*.o\n");
    fixture.write("build/x.o", "o\n");
    let (restored, deleted) = fixture.reverted(&since);
    assert_eq!(restored, [".gitignore"]);
    assert_eq!(deleted, ["build/.gitignore", "build/out", "build/x.o", "hidden"]);
    assert_eq!(snapshot(&fixture.app()), before);
    fixture.remove(".gitignore");
    fixture.write("added.log", "ignored by the checkpoint\n");
    assert_eq!(fixture.reverted(&since), (vec![".gitignore".to_owned()], vec![]));
    assert!(fixture.app().join("added.log").exists());
}

#[test]
fn names_of_any_bytes_are_restored_and_deleted() {
    let hostile: [&[u8]; 8] =
        [b"new\nline", b"quo\"te'", b"\xff\xfe", b"-rf", b":(top)x", b"tab\tand space ", b"\\n", b"*?[a]"];
    let fixture = CheckpointFixture::new();
    let path = |at: &str, name: &[u8]| fixture.app().join(at).join(OsStr::from_bytes(name));
    fixture.write("kept/.keep", "");
    fixture.write("\n/.gitignore", "ign*\n");
    fixture.write("\n/ignored", "i\n");
    for name in hostile {
        fs::write(path("kept", name), name).expect("written");
    }
    let before = snapshot(&fixture.app());
    let since = fixture.take();
    fs::create_dir(path("", b"added\n\xff")).expect("made");
    fs::remove_file(path("", b"\n/.gitignore")).expect("removed");
    for name in hostile {
        fs::remove_file(path("kept", name)).expect("removed");
        fs::write(path("", name), "added").expect("written");
        fs::write(path("", b"added\n\xff").join(OsStr::from_bytes(name)), "added").expect("written");
    }
    let one = names(fixture.revert(&since, Some(b"kept/\xff\xfe"), false));
    assert_eq!((one.0.len(), one.1.len()), (1, 0));
    let (restored, deleted) = fixture.reverted(&since);
    assert_eq!((restored.len(), deleted.len()), (hostile.len(), 2 * hostile.len()));
    assert_eq!(snapshot(&fixture.app()), before);
}

#[test]
fn nothing_is_written_through_a_link() {
    let fixture = CheckpointFixture::new();
    fixture.write("a/b/file", "inside\n");
    fixture.write("top", "inside\n");
    let since = fixture.take();
    let outside = fixture.home.path().join("outside");
    fs::create_dir_all(outside.join("b")).expect("made");
    // The same content: a comparison through the link would find nothing to do.
    fs::write(outside.join("b/file"), "inside\n").expect("written");
    fs::write(outside.join("b/other"), "outside\n").expect("written");
    let before = snapshot(&outside);
    fixture.remove("a");
    symlink(&outside, fixture.app().join("a")).expect("linked");
    fixture.remove("top");
    symlink(outside.join("b/other"), fixture.app().join("top")).expect("linked");
    symlink(&outside, fixture.app().join("added")).expect("linked");
    let (restored, deleted) = fixture.reverted(&since);
    assert_eq!(restored, ["a/b/file", "top"]);
    assert_eq!(deleted, ["a", "added"]);
    assert_eq!(snapshot(&outside), before);
    assert_eq!(fs::read(fixture.app().join("a/b/file")).expect("there"), b"inside\n");
    assert!(fixture.app().join("a").symlink_metadata().expect("there").is_dir());
    // The app directory itself is no link either.
    fs::rename(fixture.app(), fixture.home.path().join("moved")).expect("moved");
    symlink(&outside, fixture.app()).expect("linked");
    let outcome = fixture.revert(&since, None, false);
    assert!(matches!(outcome, RevertOutcome::Failed { .. }), "{outcome:?}");
    assert_eq!(snapshot(&outside), before);
}

#[test]
fn one_path_is_a_file_or_a_directory() {
    let fixture = user_app();
    let since = fixture.take();
    fixture.write("src/main.js", "changed\n");
    fixture.write("src/added", "l\n");
    fixture.write("src-other", "later\n");
    fixture.remove("gone");
    fixture.remove("dir-to-file");
    fixture.write("dir-to-file", "2\n");
    let one = |path: &str| fixture.revert(&since, Some(path.as_bytes()), false);
    assert_eq!(names(one("src")), (vec!["src/main.js".to_owned()], vec!["src/added".to_owned()]));
    assert_eq!(names(one("src")), (vec![], vec![]));
    let in_the_way = (vec!["dir-to-file/x".to_owned()], vec!["dir-to-file".to_owned()]);
    assert_eq!(names(one("dir-to-file/x")), in_the_way);
    assert_eq!(names(one("src-other")), (vec![], vec!["src-other".to_owned()]));
    for unknown in ["src-other", "sr", "node_modules", "app.log", ".git", "../app", "nothing/here"] {
        let outcome = one(unknown);
        assert!(matches!(outcome, RevertOutcome::UnknownPath { .. }), "{unknown}: {outcome:?}");
    }
    assert_eq!(fixture.reverted(&since), (vec!["gone".to_owned()], vec![]));
}

#[test]
fn a_dry_run_lists_what_a_revert_does_and_changes_nothing() {
    let fixture = user_app();
    let since = fixture.take();
    fixture.write("src/main.js", "changed\n");
    fixture.remove("gone");
    for n in 0..REVERT_LISTED_MAX + 5 {
        fixture.write(&format!("many/{n}"), "");
    }
    let before = snapshot(&fixture.app());
    let said = reverted(fixture.revert(&since, None, true));
    assert_eq!(snapshot(&fixture.app()), before);
    assert_eq!(said.restored.iter().map(text).collect::<Vec<_>>(), ["gone", "src/main.js"]);
    assert_eq!((said.deleted.len(), said.deleted_files), (REVERT_LISTED_MAX, REVERT_LISTED_MAX as u64 + 5));
    assert!(said.truncated);
    let done = reverted(fixture.revert(&since, None, false));
    assert!(done.saved.is_some());
    assert_eq!(Reverted { saved: None, ..done }, said);
}

#[test]
fn a_lost_or_forged_checkpoint_changes_nothing() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "the content of a\n");
    fixture.write("dir/b", "the content of b\n");
    let since = fixture.take();
    fixture.remove("a");
    fixture.remove("dir");
    fixture.write("added", "l\n");
    let before = snapshot(&fixture.app());
    let objects: Vec<_> = snapshot(&fixture.repository().join("objects"))
        .into_iter()
        .filter(|(name, (mode, _))| name.len() == 41 && mode & 0o170_000 == 0o100_000)
        .collect();
    assert_eq!(objects.len(), 5, "a commit, two trees and two blobs");
    for (name, (_, content)) in &objects {
        let path = fixture.repository().join("objects").join(OsStr::from_bytes(name));
        let other = objects.iter().find(|(each, _)| each != name).expect("another");
        for forged in [None, Some(&other.1.1)] {
            fs::remove_file(&path).expect("removed");
            forged.inspect(|bytes| fs::write(&path, bytes).expect("written"));
            let outcome = fixture.revert(&since, None, false);
            assert!(matches!(outcome, RevertOutcome::Lost { .. }), "{path:?}: {outcome:?}");
            assert_eq!(snapshot(&fixture.app()), before);
            fs::write(&path, content).expect("written");
        }
    }
    assert_eq!(fixture.reverted(&since).0, ["a", "dir/b"]);
    let outcome = fixture.revert(&"0".repeat(40), None, false);
    assert!(matches!(outcome, RevertOutcome::Lost { .. }), "{outcome:?}");
}

#[test]
fn files_too_large_to_record_stay_if_they_were_there_before() {
    let fixture = CheckpointFixture::new();
    let large = |name: &str, bytes: u64| {
        fs::File::create(fixture.app().join(name)).expect("made").set_len(bytes).expect("sparse");
    };
    fixture.write("grows", "1\n");
    large("database", CHECKPOINT_FILE_MAX_BYTES + 1);
    let since = fixture.take();
    large("database", 10);
    large("grows", CHECKPOINT_FILE_MAX_BYTES + 1);
    large("dump", CHECKPOINT_FILE_MAX_BYTES + 1);
    let said = reverted(fixture.revert(&since, None, true));
    let done = reverted(fixture.revert(&since, None, false));
    assert_eq!(said, done);
    assert_eq!(done.kept.iter().map(text).collect::<Vec<_>>(), ["dump", "grows"], "neither could be saved");
    assert_eq!((done.kept_files, done.restored_files + done.deleted_files), (2, 0));
    assert_eq!(names(fixture.discard(&since)), (vec!["grows".to_owned()], vec!["dump".to_owned()]));
    assert_eq!(fs::metadata(fixture.app().join("database")).expect("kept").len(), 10);
    assert_eq!(fs::read(fixture.app().join("grows")).expect("there"), b"1\n");
}

#[test]
fn repositories_within_the_app_keep_their_own_files_and_rules() {
    let fixture = CheckpointFixture::new();
    fixture.write(".gitignore", "*.log\nnode_modules\n");
    fixture.write("vendor/lib", "1\n");
    fixture.write("web/index", "1\n");
    fixture.write("web/node_modules/dep", "d\n");
    fixture.user_git(&["init", "-q", "vendor"]);
    let since = fixture.take();
    // A repository that the task made must not lift the rules above it.
    fixture.user_git(&["init", "-q", "web"]);
    fixture.write("vendor/lib", "2\n");
    fixture.write("vendor/added", "l\n");
    fixture.write("vendor/added.log", "not ignored: the rules above end here\n");
    fixture.write("web/added", "l\n");
    let git = snapshot(&fixture.app().join("vendor/.git"));
    let (restored, deleted) = fixture.reverted(&since);
    assert_eq!(restored, ["vendor/lib"]);
    assert_eq!(deleted, ["vendor/added", "vendor/added.log", "web/added"]);
    assert_eq!(snapshot(&fixture.app().join("vendor/.git")), git);
    assert!(fixture.app().join("web/node_modules/dep").exists());
    assert!(fixture.app().join("web/.git/HEAD").exists());
}

#[test]
fn nothing_of_the_users_repository_runs_and_bytes_stay_as_they_are() {
    let fixture = user_app();
    let ran = fixture.home.path().join("ran");
    let touch = format!("touch {}", ran.display());
    fixture.write(".gitattributes", "* text eol=crlf filter=evil ident\n");
    fixture.write("lines", "a\r\nb\n$Id$\n");
    let since = fixture.take();
    for (key, value) in
        [("core.fsmonitor", &touch), ("filter.evil.smudge", &touch), ("filter.evil.clean", &touch)]
    {
        fixture.user_git(&["config", key, value]);
    }
    let hook = fixture.app().join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().expect("a parent")).expect("made");
    fs::write(&hook, format!("#!/bin/sh\n{touch}\n")).expect("written");
    set_mode(&hook, 0o755);
    let before = snapshot(&fixture.app());
    fixture.write("lines", "other\n");
    fixture.remove("gone");
    assert_eq!(fixture.reverted(&since).0, ["gone", "lines"]);
    assert_eq!(snapshot(&fixture.app()), before);
    assert!(!ran.exists(), "something ran");
}

#[test]
fn a_run_that_died_is_repeated_with_the_same_end() {
    let fixture = user_app();
    let before = snapshot(&fixture.app());
    let since = fixture.take();
    fixture.write("src/main.js", "changed\n");
    fixture.remove("dir-to-file");
    fixture.write("dir-to-file", "2\n");
    fixture.write("added/a", "l\n");
    // As far as one came that was killed between two files.
    fixture.remove("added");
    fixture.remove("dir-to-file");
    fs::create_dir(fixture.app().join("dir-to-file")).expect("made");
    let beside = fixture.repository().with_file_name("restored");
    fs::create_dir_all(&beside).expect("made");
    fs::write(beside.join("0"), "half").expect("written");
    fs::write(fixture.repository().join("index.lock"), "").expect("written");
    assert_eq!(fixture.reverted(&since).0, ["dir-to-file/x", "src/main.js"]);
    assert_eq!(snapshot(&fixture.app()), before);
    assert!(!beside.exists());
    // The whole directory was deleted.
    fs::remove_dir_all(fixture.app()).expect("removed");
    assert_eq!(fixture.reverted(&since).1, Vec::<String>::new());
    assert_eq!(fs::read(fixture.app().join("src/main.js")).expect("there"), b"three\n");
}

#[test]
fn a_checkpoint_of_an_older_version_is_restored_too() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    let since = fixture.take();
    let older = super::git::Git { repository: fixture.repository(), work_tree: fixture.app(), objects: None };
    let tree = older.object(&["rev-parse", &format!("{since}^{{tree}}")]).expect("a tree");
    let older = older.object(&["commit-tree", &tree, "-m", "before task t1"]).expect("a commit");
    fixture.write("a", "2\n");
    fixture.write("added", "l\n");
    let large = fs::File::create(fixture.app().join("large")).expect("made");
    large.set_len(CHECKPOINT_FILE_MAX_BYTES + 1).expect("sparse");
    assert_eq!(fixture.reverted(&older), (vec!["a".to_owned()], vec!["added".to_owned()]));
    assert!(fixture.app().join("large").exists(), "it may have been there before");
}
