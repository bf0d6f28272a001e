//! What each verb does to files, links and directories that are there.

use super::fixture::Fixture;
use crate::Workspace;
use protocol::files::{
    ByteRange, FilePath, FileType, FilesErrorCode, FilesReply, FilesRequest, ListRequest, Selection,
    WriteMode, WriteRequest,
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

fn write(path: &str) -> WriteRequest {
    WriteRequest { path: path.into(), ..WriteRequest::default() }
}

fn read(path: &str) -> FilesRequest {
    FilesRequest::Read { path: path.into(), range: None, unless_etag: vec![] }
}

fn code(fixture: &Fixture, request: &FilesRequest, body: &[u8]) -> FilesErrorCode {
    let (done, exchange) = fixture.perform(request, body);
    assert_eq!(exchange.reply, None, "{request:?}");
    done.expect_err("refused").failure().code
}

fn etag_of(fixture: &Fixture, path: &str) -> String {
    match fixture.reply(&FilesRequest::Stat { path: path.into(), follow: true }, b"").0 {
        FilesReply::Entry { entry, .. } => entry.etag,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_written_file_is_read_with_its_mode_and_parents() {
    let fixture = Fixture::new();
    let request = WriteRequest { mode: Some(0o6755), ..write("a/b/c.txt") };
    let (reply, _) = fixture.reply(&FilesRequest::Write(request), b"some content here");
    let FilesReply::Entry { entry, created } = reply else { panic!("{reply:?}") };
    assert!(created);
    assert_eq!((entry.size, entry.mode), (17, 0o755), "without set-id bits");
    let (reply, content) = fixture.reply(&read("a/b/c.txt"), b"");
    assert_eq!(content, b"some content here");
    assert!(matches!(reply, FilesReply::Content { first: 0, bytes: 17, .. }), "{reply:?}");
    // Replaced, with the mode it had.
    let (reply, _) = fixture.reply(&FilesRequest::Write(write("a/b/c.txt")), b"new");
    assert!(
        matches!(reply, FilesReply::Entry { created: false, ref entry } if entry.mode == 0o755),
        "{reply:?}"
    );
    assert_eq!(fs::read(fixture.path("a/b/c.txt")).unwrap(), b"new");
    assert_eq!(fs::read_dir(fixture.path("a/b")).unwrap().count(), 1, "no temporary name is left");
}

#[test]
fn paths_of_a_root_are_absolute_and_its_links_stay_in_it() {
    let fixture = Fixture::new();
    let root =
        Fixture { workspace: Workspace::root(fs::File::open(fixture.path("")).unwrap().into()), ..fixture };
    fs::create_dir(root.path("tmp")).unwrap();
    fs::write(root.path("tmp/f"), "there").unwrap();
    symlink("/tmp", root.path("absolute")).unwrap();
    symlink("/tmp/f", root.path("file")).unwrap();
    symlink("../../..", root.path("up")).unwrap();
    for path in ["/tmp/f", "tmp/f", "/absolute/f", "/file", "/up/tmp/f", "/../tmp/f"] {
        assert_eq!(root.reply(&read(path), b"").1, b"there", "{path}");
    }
    root.reply(&FilesRequest::Write(write("/file")), b"by link");
    assert_eq!(fs::read(root.path("tmp/f")).unwrap(), b"by link");
    assert!(root.path("file").is_symlink());
    // What is outside has no name in it.
    assert_eq!(code(&root, &read("/../secret"), b""), FilesErrorCode::NotFound);
    let list =
        ListRequest { path: "/tmp".into(), depth: 1, limit: 10, after: None, select: Selection::default() };
    let FilesReply::Page { items, .. } = root.reply(&FilesRequest::List(list), b"").0 else {
        panic!("a page")
    };
    assert_eq!(items[0].path, "/tmp/f".into());
}

#[test]
fn a_part_of_a_file_is_read() {
    let fixture = Fixture::new();
    fs::write(fixture.path("f"), "0123456789").unwrap();
    let part = |range| FilesRequest::Read { path: "f".into(), range: Some(range), unless_etag: vec![] };
    let (_, content) = fixture.reply(&part(ByteRange::From { first: 3, last: Some(5) }), b"");
    assert_eq!(content, b"345");
    let (_, content) = fixture.reply(&part(ByteRange::Suffix { bytes: 2 }), b"");
    assert_eq!(content, b"89");
    let beyond = part(ByteRange::From { first: 10, last: None });
    assert_eq!(code(&fixture, &beyond, b""), FilesErrorCode::RangeNotSatisfiable);
}

#[test]
fn a_tag_changes_with_the_content_and_guards_a_write() {
    let fixture = Fixture::new();
    fs::write(fixture.path("f"), "one").unwrap();
    let first = etag_of(&fixture, "f");
    let unless = FilesRequest::Read { path: "f".into(), range: None, unless_etag: vec![first.clone()] };
    assert!(matches!(fixture.reply(&unless, b"").0, FilesReply::NotModified { .. }));
    let guarded =
        |tag: &str| FilesRequest::Write(WriteRequest { if_match: Some(vec![tag.into()]), ..write("f") });
    fixture.reply(&guarded(&first), b"two");
    assert_ne!(etag_of(&fixture, "f"), first);
    assert_eq!(code(&fixture, &guarded(&first), b"three"), FilesErrorCode::PreconditionFailed);
    assert_eq!(fs::read(fixture.path("f")).unwrap(), b"two");
    let missing = WriteRequest { if_match: Some(vec!["*".into()]), ..write("absent") };
    assert_eq!(code(&fixture, &FilesRequest::Write(missing), b""), FilesErrorCode::PreconditionFailed);
    let create = |path| FilesRequest::Write(WriteRequest { how: WriteMode::Create, ..write(path) });
    assert_eq!(code(&fixture, &create("f"), b"x"), FilesErrorCode::PreconditionFailed);
    fixture.reply(&create("new"), b"x");
    let delete = FilesRequest::Delete { path: "f".into(), recursive: false, if_match: Some(vec![first]) };
    assert_eq!(code(&fixture, &delete, b""), FilesErrorCode::PreconditionFailed);
}

#[test]
fn an_append_adds_to_the_end_and_creates() {
    let fixture = Fixture::new();
    let append = FilesRequest::Write(WriteRequest { how: WriteMode::Append, ..write("log") });
    fixture.reply(&append, b"first line\n");
    fixture.reply(&append, b"second\n");
    assert_eq!(fs::read(fixture.path("log")).unwrap(), b"first line\nsecond\n");
}

#[test]
fn a_write_to_a_link_inside_writes_what_it_points_to() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("d")).unwrap();
    fs::write(fixture.path("d/real"), "old").unwrap();
    symlink("d/real", fixture.path("link")).unwrap();
    fixture.reply(&FilesRequest::Write(write("link")), b"new");
    assert_eq!(fs::read(fixture.path("d/real")).unwrap(), b"new");
    assert!(fs::symlink_metadata(fixture.path("link")).unwrap().is_symlink());
    // The link itself is what is deleted and moved.
    let to = FilesRequest::Move { from: "link".into(), to: "d/moved".into(), overwrite: false };
    fixture.reply(&to, b"");
    fixture.reply(&FilesRequest::Delete { path: "d/moved".into(), recursive: false, if_match: None }, b"");
    assert!(fixture.path("d/real").exists());
}

#[test]
fn a_directory_is_made_moved_copied_and_deleted() {
    let fixture = Fixture::new();
    let mkdir = |path: &str| FilesRequest::Mkdir { path: path.into(), mode: Some(0o700) };
    let (reply, _) = fixture.reply(&mkdir("a/b"), b"");
    assert!(
        matches!(reply, FilesReply::Entry { created: true, ref entry } if entry.mode == 0o700),
        "{reply:?}"
    );
    assert!(matches!(fixture.reply(&mkdir("a/b"), b"").0, FilesReply::Entry { created: false, .. }));
    fs::write(fixture.path("a/b/f"), "content").unwrap();
    fs::set_permissions(fixture.path("a/b/f"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("f", fixture.path("a/b/l")).unwrap();
    let copy =
        |from: &str, to: &str| FilesRequest::Copy { from: from.into(), to: to.into(), overwrite: false };
    fixture.reply(&copy("a", "copied/here"), b"");
    assert_eq!(fs::read(fixture.path("copied/here/b/l")).unwrap(), b"content");
    assert_eq!(fs::metadata(fixture.path("copied/here/b/f")).unwrap().mode() & 0o777, 0o751);
    assert_eq!(code(&fixture, &copy("a", "copied/here"), b""), FilesErrorCode::Exists);
    assert_eq!(code(&fixture, &copy("a", "a/b/inner"), b""), FilesErrorCode::InvalidRequest);
    let delete = |recursive| FilesRequest::Delete { path: "a".into(), recursive, if_match: None };
    assert_eq!(code(&fixture, &delete(false), b""), FilesErrorCode::NotEmpty);
    fixture.reply(&delete(true), b"");
    assert_eq!(code(&fixture, &delete(true), b""), FilesErrorCode::NotFound);
    let to = FilesRequest::Move { from: "copied/here".into(), to: "moved".into(), overwrite: false };
    fixture.reply(&to, b"");
    assert!(fixture.path("moved/b/f").exists());
    assert_eq!(code(&fixture, &mkdir("moved/b/f"), b""), FilesErrorCode::Exists);
    assert_eq!(code(&fixture, &mkdir("moved/b/f/x"), b""), FilesErrorCode::NotADirectory);
}

fn list(path: &str, limit: usize, after: Option<FilePath>) -> ListRequest {
    let select = Selection::default();
    ListRequest { path: path.into(), depth: u32::MAX, limit, after, select }
}

fn listed(fixture: &Fixture, request: ListRequest) -> (Vec<String>, bool) {
    match fixture.reply(&FilesRequest::List(request), b"").0 {
        FilesReply::Page { items, more } => (items.iter().map(|item| item.path.lossy()).collect(), more),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pages_of_a_tree_join_to_the_whole_in_order() {
    let fixture = Fixture::new();
    for directory in ["b", "b/c", "b/c/d", "e"] {
        fs::create_dir(fixture.path(directory)).unwrap();
    }
    for file in ["a", "b.txt", "b/1", "b/c/2", "b/c/d/3", "b/z", "e/4", "f"] {
        fs::write(fixture.path(file), "x").unwrap();
    }
    let (whole, more) = listed(&fixture, list("", 100, None));
    let expected = ["a", "b", "b/1", "b/c", "b/c/2", "b/c/d", "b/c/d/3", "b/z", "b.txt", "e", "e/4", "f"];
    assert_eq!((whole.iter().map(String::as_str).collect::<Vec<_>>(), more), (expected.to_vec(), false));
    for limit in 1..=whole.len() {
        let (mut joined, mut after) = (vec![], None);
        loop {
            let (page, more) = listed(&fixture, list("", limit, after.clone()));
            joined.extend(page);
            if !more {
                break;
            }
            after = joined.last().map(|last: &String| last.as_str().into());
        }
        assert_eq!(joined, whole, "pages of {limit}");
    }
    let (below, _) = listed(&fixture, list("b/c/", 10, None));
    assert_eq!(below, ["b/c/2", "b/c/d", "b/c/d/3"]);
    let (own, _) = listed(&fixture, ListRequest { depth: 1, ..list("", 10, None) });
    assert_eq!(own, ["a", "b", "b.txt", "e", "f"]);
}

#[test]
fn ignore_files_and_exclusions_leave_entries_out() {
    let fixture = Fixture::new();
    for directory in ["node_modules", "src", "src/out", ".git"] {
        fs::create_dir(fixture.path(directory)).unwrap();
    }
    for file in ["node_modules/x", "src/a.rs", "src/a.log", "src/keep.log", "src/out/o", ".git/HEAD"] {
        fs::write(fixture.path(file), "x").unwrap();
    }
    fs::write(fixture.path(".gitignore"), "node_modules/\n*.log\n").unwrap();
    fs::write(fixture.path("src/.gitignore"), "!keep.log\n/out\n").unwrap();
    let select = |ignore, exclude: &[&str]| Selection {
        ignore,
        exclude: exclude.iter().map(|text| (*text).to_owned()).collect(),
    };
    let names = |select| listed(&fixture, ListRequest { select, ..list("", 100, None) }).0;
    assert_eq!(names(select(true, &[])), [".gitignore", "src", "src/.gitignore", "src/a.rs", "src/keep.log"]);
    assert_eq!(names(select(true, &["*.rs", ".gitignore"])), ["src", "src/keep.log"]);
    assert_eq!(names(select(false, &["src", "node_modules"])), [".git", ".git/HEAD", ".gitignore"]);
}

#[test]
fn kinds_that_are_no_files_are_listed_and_never_opened() {
    let fixture = Fixture::new();
    nix::unistd::mkfifo(&fixture.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    drop(std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap());
    fs::create_dir(fixture.path("directory")).unwrap();
    let FilesReply::Page { items, .. } = fixture.reply(&FilesRequest::List(list("", 10, None)), b"").0 else {
        panic!("a page");
    };
    let kinds: Vec<FileType> = items.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [FileType::Directory, FileType::Fifo, FileType::Socket]);
    for name in ["fifo", "socket", "directory"] {
        assert_eq!(code(&fixture, &read(name), b""), FilesErrorCode::NotAFile, "{name}");
        let append = WriteRequest { how: WriteMode::Append, ..write(name) };
        for request in [write(name), append] {
            assert_eq!(
                code(&fixture, &FilesRequest::Write(request), b"x"),
                FilesErrorCode::NotAFile,
                "{name}"
            );
        }
    }
}

#[test]
fn an_installation_never_moves_the_app_directory() {
    let fixture = Fixture::new();
    let install = FilesRequest::Install { from: "dots".into(), to: "".into() };
    for (name, app) in [("dots/workspace", "workspace/app/x"), ("dots/workspace/app", "workspace/app/x")] {
        fixture.reply(&FilesRequest::Write(write(app)), b"work");
        fixture.reply(&FilesRequest::Write(write(name)), b"in the way");
        assert_eq!(code(&fixture, &install, b""), FilesErrorCode::InvalidRequest, "{name}");
        let stat = FilesRequest::Stat { path: app.into(), follow: false };
        assert!(matches!(fixture.reply(&stat, b"").0, FilesReply::Entry { .. }), "{name}");
        fixture.reply(&FilesRequest::Delete { path: "dots".into(), recursive: true, if_match: None }, b"");
    }
}
