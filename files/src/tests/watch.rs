//! What a watch reports of changes in a real tree, and that nothing is lost without an `Overflow`.

use super::fixture::Fixture;
use crate::{Exchange, FilesError, Workspace, perform, watch::watch_at_most};
use bytes::Bytes;
use protocol::files::{FileChangeKind, FilesReply, FilesRequest, WatchLine, WriteRequest};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{fs::symlink, net::UnixStream},
    },
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
    time::Duration,
};

/// Bounds a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pieces of lines that wait for the test.
const PIECES_MAX: usize = 16;

/// Hands lines to the test; ends when the test drops its end of the socket.
struct Lines {
    to: SyncSender<Bytes>,
    caller: UnixStream,
}

impl Exchange for Lines {
    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        Ok(None)
    }

    fn reply(&mut self, reply: FilesReply) -> io::Result<()> {
        assert_eq!(reply, FilesReply::Watching);
        Ok(())
    }

    fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        self.to.send(bytes).map_err(io::Error::other)
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn cancel_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.caller.as_fd())
    }
}

struct Watch {
    lines: Receiver<Bytes>,
    held: Vec<WatchLine>,
    caller: Option<UnixStream>,
    thread: Option<JoinHandle<Result<(), FilesError>>>,
}

impl Watch {
    /// A watch that is ready.
    fn start(fixture: &Fixture, path: &str, recursive: bool) -> Self {
        let request = FilesRequest::Watch { path: path.into(), recursive };
        Self::of(fixture, move |workspace, exchange| perform(workspace, exchange, &request))
    }

    fn of(
        fixture: &Fixture,
        run: impl FnOnce(&Workspace, &mut dyn Exchange) -> Result<(), FilesError> + Send + 'static,
    ) -> Self {
        let (to, lines) = sync_channel(PIECES_MAX);
        let (caller, theirs) = UnixStream::pair().expect("pair");
        let workspace = Workspace::new(File::open(fixture.path("")).expect("top").into());
        let mut exchange = Lines { to, caller: theirs };
        let thread = std::thread::spawn(move || run(&workspace, &mut exchange));
        let mut watch = Self { lines, held: vec![], caller: Some(caller), thread: Some(thread) };
        assert_eq!(watch.next(), Some(WatchLine::Ready));
        watch
    }

    /// The next line; `None` at the end.
    fn next(&mut self) -> Option<WatchLine> {
        while self.held.is_empty() {
            let piece = match self.lines.recv_timeout(PATIENCE) {
                Ok(piece) => piece,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("no line"),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
            };
            let lines = piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            self.held = lines.map(|line| serde_json::from_slice(line).expect("a line")).collect();
        }
        Some(self.held.remove(0))
    }

    /// The lines until the creation of `last`, as text.
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let line = text(self.next().expect("a line"));
            if line == format!("created {last}") {
                return told;
            }
            told.push(line);
        }
    }

    /// The lines of what was done before this call.
    fn so_far(&mut self, fixture: &Fixture) -> Vec<String> {
        fs::write(fixture.path("end"), "").unwrap();
        let mut told = self.until("end");
        // In the same batch there is what was found late.
        fs::remove_file(fixture.path("end")).unwrap();
        told.extend(std::iter::from_fn(|| self.next().map(text)).take_while(|line| line != "deleted end"));
        told.retain(|line| line != "modified end");
        told
    }

    /// The rest of the lines of a watch that ends by itself.
    fn rest(mut self) -> Vec<String> {
        let rest = std::iter::from_fn(|| self.next()).map(text).collect();
        self.thread.take().expect("runs").join().expect("no panic").expect("ends well");
        rest
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.caller.take());
        while self.lines.recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let done = thread.join();
            assert!(std::thread::panicking() || matches!(done, Ok(Err(FilesError::Cancelled))), "{done:?}");
        }
    }
}

fn text(line: WatchLine) -> String {
    match line {
        WatchLine::Ready => "ready".to_owned(),
        WatchLine::Idle => "idle".to_owned(),
        WatchLine::Overflow { reason } => format!("overflow: {reason}"),
        WatchLine::Change(change) => {
            let kind = match change.change {
                FileChangeKind::Created => "created",
                FileChangeKind::Modified => "modified",
                FileChangeKind::Deleted => "deleted",
                FileChangeKind::Moved => "moved",
            };
            let slash = if change.directory { "/" } else { "" };
            let path = format!("{}{slash}", change.path.lossy());
            match change.from {
                Some(from) => format!("{kind} {} to {path}", from.lossy()),
                None => format!("{kind} {path}"),
            }
        }
    }
}

/// A change of the tree.
type Act = fn(&Fixture);

#[test]
fn every_change_is_reported_as_what_it_is() {
    let table: &[(Act, &[&str])] = &[
        (|f| fs::write(f.path("f"), "").unwrap(), &["created f"]),
        (|f| fs::write(f.path("f"), "content").unwrap(), &["modified f"]),
        (|f| fs::rename(f.path("f"), f.path("g")).unwrap(), &["moved f to g"]),
        (|f| fs::remove_file(f.path("g")).unwrap(), &["deleted g"]),
        (|f| fs::create_dir(f.path("d")).unwrap(), &["created d/"]),
        (|f| fs::write(f.path("d/x"), "").unwrap(), &["created d/x"]),
        (|f| fs::rename(f.path("d"), f.path("e")).unwrap(), &["moved d to e/"]),
        // By its new path.
        (|f| fs::write(f.path("e/x"), "more").unwrap(), &["modified e/x"]),
        (|f| fs::rename(f.path("e/x"), f.path("y")).unwrap(), &["moved e/x to y"]),
        (|f| fs::remove_dir_all(f.path("e")).unwrap(), &["deleted e/"]),
        (|f| symlink("../secret", f.path("link")).unwrap(), &["created link"]),
        (|f| fs::rename(f.path("y"), f.outer.path().join("y")).unwrap(), &["deleted y"]),
        (|f| fs::rename(f.outer.path().join("y"), f.path("z")).unwrap(), &["created z"]),
        // Our own write: no temporary name.
        (|f| verb_write(f, "z", "replaced"), &["created z"]),
        (|f| verb_write(f, "new", "new"), &["created new"]),
        (|f| fs::write(f.path("#12"), "").unwrap(), &["created #12"]),
        (|f| fs::write(f.path("#12"), "more").unwrap(), &["modified #12"]),
    ];
    let fixture = Fixture::new();
    let mut watch = Watch::start(&fixture, "", true);
    for (at, (act, expected)) in table.iter().enumerate() {
        act(&fixture);
        let mut told = watch.so_far(&fixture);
        // A slow machine may see the creation of a file before its content.
        told.dedup_by(|next, before| *next == before.replace("created", "modified"));
        assert_eq!(told, *expected, "row {at}");
    }
}

fn verb_write(fixture: &Fixture, path: &str, content: &str) {
    let request = WriteRequest { path: path.into(), ..WriteRequest::default() };
    fixture.reply(&FilesRequest::Write(request), content.as_bytes());
}

#[test]
fn only_the_directory_itself_is_reported_where_that_is_asked() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("w/below")).unwrap();
    let mut watch = Watch::start(&fixture, "w", false);
    for name in ["w/below/f", "outside", "w/f"] {
        fs::write(fixture.path(name), "").unwrap();
    }
    fs::create_dir(fixture.path("w/d")).unwrap();
    fs::write(fixture.path("w/d/f"), "").unwrap();
    fs::write(fixture.path("w/end"), "").unwrap();
    assert_eq!(watch.until("w/end"), ["created w/f", "created w/d/"]);
}

#[test]
fn nothing_is_lost_in_directories_that_are_made_while_they_are_filled() {
    let fixture = Fixture::new();
    let mut watch = Watch::start(&fixture, "", true);
    let mut missing = BTreeSet::new();
    for number in 0..300 {
        fs::create_dir_all(fixture.path(&format!("{number}/a/b/c"))).unwrap();
        fs::write(fixture.path(&format!("{number}/a/b/c/f")), "x").unwrap();
        missing.insert(format!("created {number}/a/b/c/f"));
        // Renamed at once: the watch finds it at its new place.
        fs::rename(fixture.path(&format!("{number}/a")), fixture.path(&format!("{number}/z"))).unwrap();
        fs::write(fixture.path(&format!("{number}/z/b/c/g")), "x").unwrap();
        missing.insert(format!("created {number}/z/b/c/g"));
    }
    for line in watch.so_far(&fixture) {
        assert!(!line.starts_with("overflow"), "{line}");
        missing.remove(&line);
        // A directory that was moved before it was seen has its content at the new place only.
        missing.remove(&line.replace("/z/b/c/f", "/a/b/c/f"));
    }
    assert_eq!(missing, BTreeSet::new());
    // All of them are watched.
    fs::write(fixture.path("299/z/b/c/h"), "x").unwrap();
    assert_eq!(watch.so_far(&fixture), ["created 299/z/b/c/h"]);
}

#[test]
fn trees_are_followed_in_and_out() {
    let fixture = Fixture::new();
    let outside = fixture.outer.path().join("tree");
    fs::create_dir_all(outside.join("a/b")).unwrap();
    fs::write(outside.join("a/b/f"), "").unwrap();
    let mut watch = Watch::start(&fixture, "", true);
    fs::rename(&outside, fixture.path("tree")).unwrap();
    let expected = ["created tree/", "created tree/a/", "created tree/a/b/", "created tree/a/b/f"];
    assert_eq!(watch.so_far(&fixture), expected);
    fs::write(fixture.path("tree/a/b/f"), "x").unwrap();
    assert_eq!(watch.so_far(&fixture), ["modified tree/a/b/f"]);
    fs::rename(fixture.path("tree"), &outside).unwrap();
    assert_eq!(watch.so_far(&fixture), ["deleted tree/"]);
    // What happens outside is not reported.
    fs::write(outside.join("a/b/f"), "y").unwrap();
    fs::create_dir(outside.join("a/new")).unwrap();
    assert_eq!(watch.so_far(&fixture), [""; 0]);
}

/// Changes names in a storm; the watch has seen all of them or says that it has not.
#[test]
fn a_storm_is_reported_whole_or_as_an_overflow() {
    let fixture = Fixture::new();
    let mut watch = Watch::start(&fixture, "", true);
    let path = fixture.path("");
    let storm = std::thread::spawn(move || {
        for number in 0..20_000 {
            let directory = path.join(format!("{}", number % 50));
            let _ = fs::create_dir(&directory);
            fs::write(directory.join(format!("{number}")), "").unwrap();
        }
        fs::write(path.join("end"), "").unwrap();
    });
    let mut missing: BTreeSet<String> =
        (0..20_000).map(|number| format!("created {}/{number}", number % 50)).collect();
    let mut overflow = false;
    // The last name itself may be what was lost.
    loop {
        let line = text(watch.next().expect("a line"));
        overflow |= line.starts_with("overflow");
        missing.remove(&line);
        if line == "created end" || (overflow && storm.is_finished()) {
            break;
        }
    }
    storm.join().unwrap();
    assert!(overflow || missing.is_empty(), "{} names were lost", missing.len());
    // Changes are reported again.
    fs::write(fixture.path("7/after"), "").unwrap();
    while text(watch.next().expect("a line")) != "created 7/after" {}
}

#[test]
fn a_full_queue_is_an_overflow_and_the_tree_is_watched_again() {
    let fixture = Fixture::new();
    let mut watch = Watch::start(&fixture, "", true);
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    // Lines are not taken, so that the watch stands still when its pieces are full.
    for number in 0..queue * 3 {
        let name = fixture.path(&format!("{:0>200}", number % 64));
        if number % 128 < 64 { fs::write(name, "").unwrap() } else { fs::remove_file(name).unwrap() }
    }
    fs::create_dir_all(fixture.path("made/meanwhile")).unwrap();
    while !text(watch.next().expect("a line")).starts_with("overflow") {}
    fs::write(fixture.path("made/meanwhile/f"), "").unwrap();
    while text(watch.next().expect("a line")) != "created made/meanwhile/f" {}
}

#[test]
fn directories_beyond_the_limit_are_an_overflow_and_the_others_are_watched() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("a")).unwrap();
    let mut watch = Watch::of(&fixture, |workspace, exchange| watch_at_most(workspace, exchange, 2));
    fs::create_dir_all(fixture.path("b/c")).unwrap();
    fs::write(fixture.path("a/f"), "").unwrap();
    let told = watch.so_far(&fixture);
    let overflow = "overflow: 2 directories are watched and others are not: the tree has too many";
    for line in ["created b/", "created a/f", overflow] {
        assert!(told.iter().any(|told| told == line), "{line} is missing in {told:?}");
    }
    // There is room again.
    fs::remove_dir_all(fixture.path("a")).unwrap();
    fs::create_dir(fixture.path("d")).unwrap();
    fs::write(fixture.path("d/f"), "").unwrap();
    assert_eq!(watch.so_far(&fixture), ["deleted a/f", "deleted a/", "created d/", "created d/f"]);
}

#[test]
fn the_end_of_the_watched_directory_ends_the_watch() {
    let table: [(Act, &[&str]); 3] = [
        (|f| fs::remove_dir(f.path("a/w")).unwrap(), &["overflow: the watched directory was deleted"]),
        (
            |f| fs::rename(f.path("a/w"), f.path("elsewhere")).unwrap(),
            &["overflow: the watched directory was moved"],
        ),
        (
            |f| {
                fs::write(f.path("a/w/f"), "").unwrap();
                fs::remove_dir_all(f.path("a")).unwrap();
            },
            &["created a/w/f", "deleted a/w/f", "overflow: the watched directory was deleted"],
        ),
    ];
    for (act, expected) in table {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.path("a/w")).unwrap();
        let watch = Watch::start(&fixture, "a/w", true);
        act(&fixture);
        assert_eq!(watch.rest(), expected);
    }
}

/// Swaps a directory for a link to one outside, over and over.
#[test]
fn nothing_outside_is_watched_through_a_link() {
    let fixture = Fixture::new();
    let outside = fixture.outer.path().join("outside");
    fs::create_dir_all(outside.join("below")).unwrap();
    symlink(&outside, fixture.path("link")).unwrap();
    let mut watch = Watch::start(&fixture, "", true);
    for number in 0..500 {
        fs::create_dir_all(fixture.path("d/below")).unwrap();
        fs::rename(fixture.path("d"), fixture.path("away")).unwrap();
        symlink("../outside", fixture.path("d")).unwrap();
        fs::write(outside.join(format!("below/secret-{number}")), "").unwrap();
        fs::remove_file(fixture.path("d")).unwrap();
        fs::remove_dir_all(fixture.path("away")).unwrap();
    }
    symlink("../outside", fixture.path("d")).unwrap();
    fs::write(outside.join("below/secret"), "").unwrap();
    let told = watch.so_far(&fixture);
    assert!(!told.iter().any(|line| line.contains("secret")), "{told:?}");
    assert!(told.iter().any(|line| line == "created d"), "the link itself");
}

#[test]
fn only_a_directory_is_watched() {
    let fixture = Fixture::new();
    fs::write(fixture.path("f"), "").unwrap();
    symlink("../", fixture.path("out")).unwrap();
    for (path, expected) in [("f", "NotADirectory"), ("absent", "NotFound"), ("out", "Outside")] {
        let (done, exchange) =
            fixture.perform(&FilesRequest::Watch { path: path.into(), recursive: true }, b"");
        let code = done.expect_err("refused").failure().code;
        assert_eq!((format!("{code:?}").as_str(), exchange.reply), (expected, None), "{path}");
    }
}

#[test]
fn several_writes_in_a_row_are_one_change() {
    let fixture = Fixture::new();
    fs::write(fixture.path("log"), "").unwrap();
    let mut watch = Watch::start(&fixture, "", true);
    let mut log = File::options().append(true).open(fixture.path("log")).unwrap();
    for _ in 0..5_000 {
        log.write_all(b"line\n").unwrap();
    }
    let told = watch.so_far(&fixture);
    assert!(told.iter().all(|line| line == "modified log"), "{told:?}");
    assert!(told.len() < 500, "{} lines for 5000 writes", told.len());
}
