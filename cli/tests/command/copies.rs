//! `slipway cp`, against files of the fake hostd.

use super::{CommandOutput, fake::FakeHostd, run, slipway, spawn};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};
use tokio::io::AsyncWriteExt as _;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}

/// Runs `cp` with these paths; `{}` is the local directory.
async fn cp(fake: &FakeHostd, here: &Path, paths: &str) -> CommandOutput {
    run(&fake.data_dir(), &format!("cp {}", paths.replace("{}", &here.display().to_string()))).await
}

async fn copied(fake: &FakeHostd, here: &Path, paths: &str) {
    let ended = cp(fake, here, paths).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""), "{paths}");
}

/// A directory with a file of each kind that is copied.
fn tree(at: &Path) {
    fs::create_dir_all(at.join("deep/empty")).expect("made");
    fs::write(at.join("deep/run.sh"), "#!/bin/sh\n").expect("written");
    fs::set_permissions(at.join("deep/run.sh"), fs::Permissions::from_mode(0o4755)).expect("set");
    fs::write(at.join("large"), "x".repeat(300_000)).expect("written");
    symlink("deep/run.sh", at.join("link")).expect("made");
}

fn check_tree(at: &Path) {
    assert!(at.join("deep/empty").is_dir());
    assert_eq!(fs::read_to_string(at.join("deep/run.sh")).expect("read"), "#!/bin/sh\n");
    assert_eq!(mode(&at.join("deep/run.sh")), 0o755, "without set-id");
    assert_eq!(fs::read(at.join("large")).expect("read").len(), 300_000);
    assert_eq!(fs::read_link(at.join("link")).expect("a link"), Path::new("deep/run.sh"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out_with_their_permissions() {
    let (fake, here) = (FakeHostd::start(), tempfile::tempdir().expect("a directory"));
    let here = here.path();
    fs::write(here.join("a.sh"), "one").expect("written");
    fs::set_permissions(here.join("a.sh"), fs::Permissions::from_mode(0o750)).expect("set");
    // The top is a directory, and so is what ends in a slash; anything else is the copy.
    copied(&fake, here, "{}/a.sh web:").await;
    copied(&fake, here, "{}/a.sh web:new/dir/").await;
    copied(&fake, here, "{}/a.sh web:other.sh").await;
    for path in ["a.sh", "new/dir/a.sh", "other.sh"] {
        assert_eq!(fake.files.read(path).as_deref(), Some("one"), "{path}");
        assert_eq!(mode(&fake.files.path(path)), 0o750, "{path}");
    }
    fs::create_dir(here.join("out")).expect("made");
    copied(&fake, here, "web:/home/sandbox/other.sh {}/out").await;
    copied(&fake, here, "web:other.sh {}/made/renamed").await;
    for path in ["out/other.sh", "made/renamed"] {
        assert_eq!(fs::read_to_string(here.join(path)).expect("read"), "one", "{path}");
        assert_eq!(mode(&here.join(path)), 0o750, "{path}");
    }
    copied(&fake, here, "{}/a.sh {}/out/other.sh web:several/").await;
    assert!(fake.files.read("several/a.sh").is_some() && fake.files.read("several/other.sh").is_some());
    copied(&fake, here, "web:a.sh web:copy.sh").await;
    assert_eq!(fake.files.read("copy.sh").as_deref(), Some("one"));
    for (paths, code, said) in [
        ("{}/missing web:", 1, "could not read"),
        ("web:missing {}/x", 1, "missing"),
        ("{}/a.sh {}/out/other.sh web:nowhere", 2, "must be a directory"),
        ("- web:", 2, "has no name"),
    ] {
        let ended = cp(&fake, here, paths).await;
        assert!(
            ended.code == Some(code) && ended.stderr.contains(said),
            "{paths}: {:?} {}",
            ended.code,
            ended.stderr
        );
    }
    assert!(!here.join("x").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_go_in_and_out_whole() {
    let (fake, here) = (FakeHostd::start(), tempfile::tempdir().expect("a directory"));
    let here = here.path();
    tree(&here.join("src"));
    fs::create_dir(fake.files.path("there")).expect("made");
    copied(&fake, here, "-r {}/src web:there").await;
    copied(&fake, here, "{}/src web:new").await;
    copied(&fake, here, "{}/src/. web:content").await;
    for path in ["there/src", "new", "content"] {
        check_tree(&fake.files.path(path));
    }
    fs::create_dir(here.join("out")).expect("made");
    copied(&fake, here, "web:new {}/out").await;
    copied(&fake, here, "web:new {}/renamed").await;
    copied(&fake, here, "web:new/. {}/out").await;
    for path in ["out/new", "renamed", "out"] {
        check_tree(&here.join(path));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_archive_stays_in_its_directory() {
    let (fake, here) = (FakeHostd::start(), tempfile::tempdir().expect("a directory"));
    let here = here.path();
    fs::write(here.join("precious"), "mine").expect("written");
    fs::create_dir(fake.files.path("evil")).expect("made");
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |kind: tar::EntryType, name: &str, link: &str, mode: u32| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        let content = if kind == tar::EntryType::Regular { "evil" } else { "" };
        header.set_size(content.len() as u64);
        // Written as they are: the library refuses such names.
        header.as_gnu_mut().expect("gnu").name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_gnu_mut().expect("gnu").linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        archive.append(&header, content.as_bytes()).expect("written");
    };
    use tar::EntryType::{Char, Fifo, Link, Regular, Symlink};
    add(Regular, "../precious", "", 0o644);
    add(Regular, "/tmp/slipway-evil-absolute", "", 0o644);
    add(Regular, "a/../../precious", "", 0o644);
    add(Symlink, "up", "..", 0o777);
    add(Regular, "up/precious", "", 0o644);
    add(Symlink, "abs", "/etc", 0o777);
    add(Symlink, "self", ".", 0o777);
    add(Regular, "self/through", "", 0o644);
    add(Link, "hard", "../precious", 0o644);
    add(Fifo, "fifo", "", 0o644);
    add(Char, "device", "", 0o644);
    add(Regular, "setuid", "", 0o6755);
    add(Regular, "fine", "", 0o644);
    *fake.files.archive.lock().expect("no panic") = Some(archive.into_inner().expect("whole"));
    let ended = cp(&fake, here, "web:evil {}/out").await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(here.join("precious")).expect("read"), "mine");
    assert!(!Path::new("/tmp/slipway-evil-absolute").exists());
    let mut names: Vec<String> = fs::read_dir(here.join("out"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    // `up` below is the directory that the entry with that parent made, in place of the refused link.
    assert_eq!(names, ["fine", "self", "setuid", "up"], "{}", ended.stderr);
    assert!(here.join("out/up").is_dir() && !here.join("out/through").exists());
    assert_eq!(mode(&here.join("out/setuid")), 0o755);
    assert!(ended.stderr.contains("../precious was left out"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_and_output_are_files_too() {
    let fake = FakeHostd::start();
    let mut child = spawn(&fake.data_dir(), "cp - web:deep/piped");
    let mut stdin = child.stdin.take().expect("a pipe");
    let text = "hi\n".repeat(100_000);
    stdin.write_all(text.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fake.files.read("deep/piped").as_deref() == Some(&text));
    let output = slipway(&fake.data_dir(), "cp web:deep/piped -").output().await.expect("it runs");
    assert!(output.status.success() && output.stdout == text.as_bytes());
}
