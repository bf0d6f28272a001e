//! What a revert must never lose: files from before the task, files that nobody could bring back, and the way back.

use super::git::Git;
use super::revert_tests::{names, reverted, set_mode, snapshot, text};
use super::tests::CheckpointFixture;
use super::{Reply, Verb};
use crate::limits::{CHECKPOINT_FILE_MAX_BYTES, REVERTS_KEPT_MAX, SKIPPED_LIST_MAX_BYTES};
use protocol::{Payload, RevertOutcome};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

impl CheckpointFixture {
    fn git(&self) -> Git {
        Git { repository: self.repository(), work_tree: self.app(), objects: None }
    }

    fn saved_content(&self, commit: &str, name: &str) -> Vec<u8> {
        self.git().run(&["show", &format!("{commit}:{name}")], None).expect("saved")
    }

    fn large(&self, name: &str) {
        let file = fs::File::create(self.app().join(name)).expect("made");
        file.set_len(CHECKPOINT_FILE_MAX_BYTES + 1).expect("sparse");
    }
}

fn texts(names: &[Payload]) -> Vec<String> {
    names.iter().map(text).collect()
}

#[test]
fn names_that_git_refuses_stay() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    fixture.write(".GIT/config", "before\n");
    symlink("a", fixture.app().join(".gitmodules")).expect("linked");
    let Reply::Taken { id, skipped, .. } = fixture.ask(Verb::Take) else { panic!("not taken") };
    assert_eq!(skipped, 2);
    let before = snapshot(&fixture.app());
    fixture.write("a", "2\n");
    assert_eq!(fixture.reverted(&id), (vec!["a".to_owned()], vec![]));
    assert_eq!(snapshot(&fixture.app()), before);
    // One that was added cannot be saved, so it stays until it is discarded.
    fixture.write("sub/.Git/x", "added\n");
    let done = reverted(fixture.revert(&id, None, false));
    assert_eq!((texts(&done.kept), done.deleted_files), (vec!["sub/.Git/x".to_owned()], 0));
    assert_eq!(names(fixture.discard(&id)).1, ["sub/.Git/x"]);
    assert_eq!(snapshot(&fixture.app()), before);
}

#[test]
fn a_truncated_list_deletes_nothing_and_says_so() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    fixture.write("f", "file\n");
    fixture.write(".gitignore", "*.log\n");
    let long = "x".repeat(200);
    for n in 0..SKIPPED_LIST_MAX_BYTES / 250 {
        fixture.write(&format!("{long}{n}.log"), "");
    }
    let since = fixture.take();
    fixture.write("a", "2\n");
    fixture.write("added", "n\n");
    fixture.remove("f");
    fixture.write("f/below", "certainly added\n");
    for discard in [false, true] {
        let done =
            reverted(if discard { fixture.discard(&since) } else { fixture.revert(&since, None, false) });
        assert!(done.incomplete_checkpoint);
        assert_eq!(texts(&done.kept), ["added"]);
        assert!(fixture.app().join("added").exists());
    }
    assert_eq!(fs::read(fixture.app().join("f")).expect("restored"), b"file\n");
}

#[test]
fn what_was_ignored_stays_also_when_the_ignored_rule_is_gone() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    fixture.write(".venv/.gitignore", "*\n");
    fixture.write(".venv/lib/x.py", "x\n");
    fixture.write("vendor/.git/HEAD", "ref: refs/heads/main\n");
    fixture.write("vendor/.git/objects/x", "");
    fixture.write("vendor/.git/refs/x", "");
    fixture.write("vendor/.cache/.gitignore", "*\n");
    fixture.write("vendor/.cache/y", "y\n");
    let since = fixture.take();
    fixture.remove(".venv/.gitignore");
    fixture.remove("vendor/.cache/.gitignore");
    fixture.write(".venv/lib/later.py", "below an ignored directory\n");
    fixture.write(".venv/added", "beside ignored files\n");
    assert_eq!(fixture.reverted(&since), (vec![], vec![".venv/added".to_owned()]));
    for kept in [".venv/lib/x.py", ".venv/lib/later.py", "vendor/.cache/y"] {
        assert!(fixture.app().join(kept).exists(), "{kept}");
    }
}

#[test]
fn everything_that_a_revert_takes_can_be_brought_back() {
    let fixture = CheckpointFixture::new();
    fixture.write("changed", "1\n");
    fixture.write("same", "s\n");
    fixture.write("dir/x", "x\n");
    fixture.write("link", "no link\n");
    let since = fixture.take();
    fixture.write("changed", "a person's edit\n");
    fixture.write(".env", "SECRET=1\n");
    fixture.write(".gitignore", "hidden\n");
    fixture.write("hidden", "ignored by the task's own rules\n");
    fixture.remove("dir");
    fixture.write("dir", "in the way\n");
    fixture.remove("link");
    symlink("same", fixture.app().join("link")).expect("linked");
    set_mode(&fixture.app().join("same"), 0o755);
    let before = snapshot(&fixture.app());
    let done = reverted(fixture.revert(&since, None, false));
    let saved = done.saved.expect("saved");
    assert_eq!(fixture.saved_content(&saved, "changed"), b"a person's edit\n");
    assert_eq!(fixture.saved_content(&saved, ".env"), b"SECRET=1\n");
    // The tree is the whole state before, and can be checked out.
    fs::remove_dir_all(fixture.app()).expect("removed");
    fs::create_dir(fixture.app()).expect("made");
    let index = fixture.home.path().join("index");
    fixture.git().run_in(&fixture.app(), &index, &["read-tree", &saved], None).expect("read");
    fixture.git().run_in(&fixture.app(), &index, &["checkout-index", "-a"], None).expect("restored");
    let mut files = before;
    files.retain(|_, (mode, _)| *mode & 0o170_000 != 0o040_000);
    let mut found = snapshot(&fixture.app());
    found.retain(|_, (mode, _)| *mode & 0o170_000 != 0o040_000);
    assert_eq!(found, files);
    // A revert that takes nothing saves nothing.
    fixture.reverted(&since);
    fixture.remove("changed");
    assert_eq!(reverted(fixture.revert(&since, None, false)).saved, None);
}

#[test]
fn what_cannot_be_saved_stays_also_in_the_place_of_a_file() {
    let fixture = CheckpointFixture::new();
    for name in ["to-dir", "to-repository", "dir/a", "dir/b"] {
        fixture.write(name, "1\n");
    }
    let since = fixture.take();
    for name in ["to-dir", "to-repository", "dir"] {
        fixture.remove(name);
    }
    fixture.write("to-dir/small", "s\n");
    fixture.large("to-dir/large");
    fixture.user_git(&["init", "-q", "to-repository"]);
    fixture.large("dir");
    let said = reverted(fixture.revert(&since, None, true));
    let done = reverted(fixture.revert(&since, None, false));
    assert_eq!(texts(&done.kept), ["dir", "to-dir/large", "to-repository/.git"]);
    assert_eq!((texts(&done.deleted), done.restored_files), (vec!["to-dir/small".to_owned()], 0));
    assert_eq!(done.not_restored, 4);
    assert_eq!((said.kept, said.not_restored), (done.kept, done.not_restored));
    assert!(fixture.app().join("to-repository/.git/HEAD").exists());
    assert_eq!(names(fixture.discard(&since)).0, ["dir/a", "dir/b", "to-dir", "to-repository"]);
}

#[test]
fn a_skipped_file_that_is_gone_is_counted() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    fixture.large("database");
    let since = fixture.take();
    fixture.remove("database");
    assert_eq!(reverted(fixture.revert(&since, None, true)).not_restored, 1);
    let done = reverted(fixture.revert(&since, None, false));
    assert_eq!((done.not_restored, done.kept_files), (1, 0));
    fs::remove_dir_all(fixture.app()).expect("removed");
    let said = reverted(fixture.revert(&since, None, true));
    assert_eq!((texts(&said.restored), said.not_restored), (vec!["a".to_owned()], 1));
    assert!(!fixture.app().exists(), "a dry run makes nothing");
}

#[test]
fn rules_that_became_directories_and_very_long_paths_are_no_obstacle() {
    let fixture = CheckpointFixture::new();
    fixture.write(".gitignore", "*.log\n");
    fixture.write("sub/.gitignore", "*.tmp\n");
    let since = fixture.take();
    fixture.remove(".gitignore");
    fixture.write(".gitignore/.gitignore", "*\n");
    fixture.write(".gitignore/x", "x\n");
    let deep = "d".repeat(250);
    let mut at = nix::fcntl::open(
        &fixture.app(),
        nix::fcntl::OFlag::O_DIRECTORY | nix::fcntl::OFlag::O_CLOEXEC,
        nix::sys::stat::Mode::empty(),
    )
    .expect("opened");
    for _ in 0..20 {
        nix::sys::stat::mkdirat(&at, deep.as_str(), nix::sys::stat::Mode::S_IRWXU).expect("made");
        let flags = nix::fcntl::OFlag::O_DIRECTORY | nix::fcntl::OFlag::O_CLOEXEC;
        at = nix::fcntl::openat(&at, deep.as_str(), flags, nix::sys::stat::Mode::empty()).expect("opened");
    }
    let flags = nix::fcntl::OFlag::O_CREAT | nix::fcntl::OFlag::O_WRONLY;
    nix::fcntl::openat(&at, "file", flags, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let done = reverted(fixture.revert(&since, None, false));
    assert_eq!(texts(&done.restored), [".gitignore"]);
    assert_eq!(texts(&done.deleted), [".gitignore/.gitignore", ".gitignore/x"]);
    assert_eq!(done.kept_files, 1, "git cannot name what is below");
    // A checkpoint of such a tree is taken, too.
    let since = fixture.take();
    assert_eq!(reverted(fixture.revert(&since, None, false)).kept_files, 0);
}

#[test]
fn a_closed_file_comes_back_readable() {
    let fixture = CheckpointFixture::new();
    fixture.write("plain", "p\n");
    fixture.write("run", "r\n");
    set_mode(&fixture.app().join("plain"), 0o644);
    set_mode(&fixture.app().join("run"), 0o755);
    let before = snapshot(&fixture.app());
    let since = fixture.take();
    for name in ["plain", "run"] {
        fixture.write(name, "changed\n");
        set_mode(&fixture.app().join(name), 0);
    }
    let done = reverted(fixture.revert(&since, None, false));
    assert_eq!((done.restored_files, done.kept_files), (2, 0));
    assert_eq!(fixture.saved_content(&done.saved.expect("saved"), "run"), b"changed\n");
    assert_eq!(snapshot(&fixture.app()), before);
}

#[test]
fn leftovers_of_a_killed_revert_are_cleared_and_old_saved_states_dropped() {
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    let since = fixture.take();
    let beside = fixture.repository().parent().expect("a parent").to_owned();
    for left in ["restored", "rules"] {
        fs::create_dir_all(beside.join(left).join("sub")).expect("made");
    }
    let config =
        fs::metadata(fixture.repository().join("config")).expect("there").modified().expect("a time");
    fixture.take();
    let entries = snapshot(&beside).into_keys().filter(|name| !name.starts_with(b"checkpoints.git"));
    assert_eq!(entries.count(), 0, "only the repository stays");
    let again = fs::metadata(fixture.repository().join("config")).expect("there").modified().expect("a time");
    assert_eq!(config, again, "nothing is written that is there already");
    let mut last = String::new();
    for n in 0..REVERTS_KEPT_MAX + 3 {
        fixture.write("a", format!("{n} changed\n"));
        last = reverted(fixture.revert(&since, None, false)).saved.expect("saved");
        super::repository::forget_old_reverts(&fixture.git(), &last);
    }
    let refs =
        fixture.git().run(&["for-each-ref", "--format=%(objectname)", "refs/reverts/"], None).expect("refs");
    let refs = String::from_utf8(refs).expect("text");
    assert_eq!(refs.lines().count(), REVERTS_KEPT_MAX);
    assert!(refs.contains(&last));
}

#[test]
fn a_checkpoint_lost_after_the_first_change_is_no_unchanged_tree() {
    let progress =
        super::revert::RevertProgress { started: true, saved: Some("c".repeat(40)), ..Default::default() };
    let lost = super::git::GitError::Lost { what: "object x".to_owned() };
    let outcome = super::revert_outcome::failed(&lost, &progress);
    assert!(matches!(&outcome, RevertOutcome::Failed { why } if why.contains("saved as ccc")), "{outcome:?}");
    let outcome = super::revert_outcome::failed(&lost, &super::revert::RevertProgress::default());
    assert!(matches!(outcome, RevertOutcome::Lost { .. }), "{outcome:?}");
}

/// Files of which the owner closed the directory. Root reads them all the same.
#[test]
fn closed_directories_stay_if_they_were_closed_before() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let fixture = CheckpointFixture::new();
    fixture.write("a", "1\n");
    fixture.write("closed/x", "x\n");
    fixture.write("blind/y", "y\n");
    set_mode(&fixture.app().join("closed"), 0o000);
    set_mode(&fixture.app().join("blind"), 0o400);
    let since = fixture.take();
    for name in ["closed", "blind"] {
        set_mode(&fixture.app().join(name), 0o755);
    }
    fixture.write("new/z", "z\n");
    set_mode(&fixture.app().join("new"), 0o000);
    assert_eq!(fixture.reverted(&since), (vec![], vec!["new/z".to_owned()]));
    assert!(fixture.app().join("closed/x").exists() && fixture.app().join("blind/y").exists());
    assert!(
        fs::metadata(fixture.app().join("closed")).is_ok_and(|meta| meta.permissions().mode() & 0o700 != 0)
    );
}
