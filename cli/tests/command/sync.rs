//! `slipway sync`, against files of the fake hostd.

use super::{CommandOutput, fake::FakeHostd, signal, slipway};
use nix::sys::signal::Signal;
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{process::Child, time::timeout};

/// A fake hostd and a local directory.
struct Pair {
    fake: FakeHostd,
    here: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        Self { fake: FakeHostd::start(), here: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.here.path().join("dir").join(name)
    }

    fn put(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path(name).parent().expect("a parent")).expect("made");
        fs::write(self.path(name), content).expect("written");
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn there(&self, name: &str) -> Option<String> {
        self.fake.files.read(&format!("app/{name}"))
    }

    fn command(&self, flags: &str) -> tokio::process::Command {
        let line = format!("sync {} web:app {flags}", self.here.path().join("dir").display());
        let mut command = slipway(&self.fake.data_dir(), &line);
        command.env("XDG_CACHE_HOME", self.here.path().join("cache"));
        command
    }

    async fn once(&self, flags: &str) -> CommandOutput {
        let output = self.command(&format!("--once {flags}")).output().await.expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        CommandOutput { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
    }

    async fn synced(&self, flags: &str) -> String {
        let ended = self.once(flags).await;
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        ended.stdout
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_time_both_sides_are_joined_and_later_deletions_are_passed_on() {
    let pair = Pair::new();
    pair.put("mine", "1");
    pair.put("deep/run.sh", "x");
    fs::set_permissions(pair.path("deep/run.sh"), fs::Permissions::from_mode(0o755)).expect("set");
    symlink("deep/run.sh", pair.path("link")).expect("made");
    pair.put("same", "equal");
    pair.fake.files.put("app/same", "equal");
    pair.fake.files.put("app/theirs", "2");
    pair.fake.files.put("app/far/away", "3");
    let said = pair.synced("").await;
    assert_eq!(said.matches("upload").count(), 4, "{said}");
    for (name, content) in
        [("mine", "1"), ("theirs", "2"), ("far/away", "3"), ("same", "equal"), ("link", "x")]
    {
        assert_eq!(pair.read(name).as_deref(), Some(content), "{name}");
        assert_eq!(pair.there(name).as_deref(), Some(content), "{name}");
    }
    let mode = fs::metadata(pair.fake.files.path("app/deep/run.sh")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(fs::read_link(pair.fake.files.path("app/link")).expect("a link"), Path::new("deep/run.sh"));
    assert_eq!(pair.synced("").await, "", "nothing is left to do");

    fs::remove_file(pair.path("mine")).expect("removed");
    fs::remove_dir_all(pair.fake.files.path("app/far")).expect("removed");
    pair.put("theirs", "changed here");
    pair.fake.files.put("app/same", "changed there");
    pair.synced("").await;
    assert_eq!((pair.there("mine"), pair.read("far/away")), (None, None));
    assert!(!pair.path("far").exists());
    assert_eq!(pair.there("theirs").as_deref(), Some("changed here"));
    assert_eq!(pair.read("same").as_deref(), Some("changed there"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_keeps_both_and_a_change_is_worth_more_than_a_deletion() {
    let pair = Pair::new();
    for name in ["both", "kept", "revived", "alike"] {
        pair.put(name, "old");
    }
    pair.synced("").await;
    pair.put("both", "mine, longer");
    pair.fake.files.put("app/both", "theirs");
    fs::remove_file(pair.path("kept")).expect("removed");
    pair.fake.files.put("app/kept", "changed");
    pair.put("revived", "changed");
    fs::remove_file(pair.fake.files.path("app/revived")).expect("removed");
    pair.put("alike", "same change");
    pair.fake.files.put("app/alike", "same change");
    let said = pair.synced("").await;
    assert!(said.contains("yours is now both.conflict-"), "{said}");
    assert_eq!(said.matches("conflict ").count(), 1, "{said}");
    for (name, content) in
        [("both", "theirs"), ("kept", "changed"), ("revived", "changed"), ("alike", "same change")]
    {
        assert_eq!(pair.read(name).as_deref(), Some(content), "{name}");
        assert_eq!(pair.there(name).as_deref(), Some(content), "{name}");
    }
    let names =
        fs::read_dir(pair.path("")).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let lost =
        names.map(|name| name.to_string_lossy().into_owned()).find(|name| name.starts_with("both.conflict-"));
    let lost = lost.expect("it is kept");
    assert_eq!(pair.read(&lost).as_deref(), Some("mine, longer"));
    assert_eq!(pair.there(&lost).as_deref(), Some("mine, longer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ignored_or_leads_out_is_left_alone() {
    let pair = Pair::new();
    pair.put(".gitignore", "node_modules/\n");
    pair.put("node_modules/x.js", "x");
    pair.put(".git/config", "x");
    pair.put("big.iso", "x");
    pair.put("plain", "x");
    let secret = pair.here.path().join("secret");
    fs::write(&secret, "mine").expect("written");
    symlink(&secret, pair.path("out")).expect("made");
    fs::create_dir_all(pair.fake.files.path("app")).expect("made");
    symlink("/etc/passwd", pair.fake.files.path("app/evil")).expect("made");
    symlink("..", pair.fake.files.path("app/up")).expect("made");
    pair.synced("--exclude *.iso").await;
    let mut there: Vec<_> = fs::read_dir(pair.fake.files.path("app"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    there.sort();
    assert_eq!(there, [".gitignore", "evil", "plain", "up"]);
    assert!(!pair.path("evil").exists() && pair.path("up").symlink_metadata().is_err());
    // A file that is ignored later is not deleted on the other side.
    pair.put(".gitignore", "node_modules/\nplain\n");
    fs::remove_file(pair.path("plain")).expect("removed");
    pair.synced("--exclude *.iso").await;
    assert_eq!(pair.there("plain").as_deref(), Some("x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_that_lost_everything_does_not_empty_the_other() {
    let pair = Pair::new();
    pair.put("a", "1");
    pair.put("b", "2");
    pair.synced("").await;
    fs::remove_dir_all(pair.fake.files.path("app")).expect("removed");
    let ended = pair.once("").await;
    assert!(ended.code == Some(1) && ended.stderr.contains("nothing was deleted"), "{}", ended.stderr);
    assert_eq!(pair.read("a").as_deref(), Some("1"));
    pair.synced("--delete-all").await;
    assert_eq!(pair.read("a"), None);
    // Another directory at the same path has no history: nothing is deleted.
    pair.fake.files.put("app/c", "3");
    pair.synced("").await;
    fs::remove_dir_all(pair.path("")).expect("removed");
    pair.synced("").await;
    assert_eq!(pair.read("c").as_deref(), Some("3"));
}

/// Waits until a condition holds; a synchronisation that never comes fails the test.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), waits).await.unwrap_or_else(|_| panic!("{what} never happens"));
}

async fn end(mut child: Child) {
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.expect("it ends").code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_both_sides_are_followed_also_when_hostd_restarts() {
    let mut pair = Pair::new();
    pair.put("first", "1");
    let child = pair.command("").stdout(std::process::Stdio::null()).spawn().expect("it runs");
    until("the first upload", || pair.there("first").is_some()).await;
    pair.put("new/below", "2");
    until("a change here", || pair.there("new/below").as_deref() == Some("2")).await;
    pair.put("new/deeper/file", "3");
    until("a change in a new directory", || pair.there("new/deeper/file").is_some()).await;
    pair.fake.files.put("app/theirs", "4");
    pair.fake.files.tell("created", "app/theirs");
    until("a change there", || pair.read("theirs").as_deref() == Some("4")).await;
    fs::remove_file(pair.path("first")).expect("removed");
    until("a deletion here", || pair.there("first").is_none()).await;
    // Something happens that is not told one by one.
    fs::remove_file(pair.fake.files.path("app/theirs")).expect("removed");
    pair.fake.files.tell("overflow", "");
    until("a deletion there", || pair.read("theirs").is_none()).await;
    pair.fake.stop().await;
    pair.fake.files.put("app/meanwhile", "5");
    pair.put("here-meanwhile", "6");
    pair.fake.serve();
    until("a change while hostd was away", || pair.read("meanwhile").is_some()).await;
    until("a local change while hostd was away", || pair.there("here-meanwhile").is_some()).await;
    end(child).await;
}
