//! What a search finds, leaves out, and refuses.

use super::fixture::{Fixture, Recorder};
use crate::{
    FilesError,
    limits::{EXCERPT_MAX_BYTES, SEARCH_FILE_MATCHES_MAX, SEARCH_LINE_MAX_BYTES},
    search::find,
};
use nix::sys::stat::Mode;
use protocol::files::{
    FileType, FilesErrorCode, FilesReply, FilesRequest, SearchMatch, SearchRequest, Selection,
};
use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

fn request(name: Option<&str>, content: Option<&str>) -> SearchRequest {
    SearchRequest {
        path: "".into(),
        name: name.map(str::to_owned),
        content: content.map(str::to_owned),
        ignore_case: false,
        hidden: false,
        limit: 100,
        select: Selection::default(),
    }
}

fn search(fixture: &Fixture, request: SearchRequest) -> (Vec<SearchMatch>, Option<String>) {
    match fixture.reply(&FilesRequest::Search(request), b"").0 {
        FilesReply::Found { items, truncated } => (items, truncated),
        other => panic!("{other:?}"),
    }
}

/// `path:line:column` of each match, or its path.
fn places(items: &[SearchMatch]) -> Vec<String> {
    let place = |item: &SearchMatch| match &item.line {
        Some(line) => format!("{}:{}:{}", item.path.lossy(), line.number, line.column),
        None => item.path.lossy(),
    };
    items.iter().map(place).collect()
}

/// A tree with files, links and things that are no files.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    for directory in ["src", "src/deep", ".hidden", "target"] {
        fs::create_dir(fixture.path(directory)).unwrap();
    }
    for (path, content) in [
        ("README.md", &b"# Title\nneedle here\n"[..]),
        ("src/main.rs", b"fn main() {\n    needle();\r\n}\nno newline: needle"),
        ("src/deep/lib.rs", b"Needle\n"),
        ("src/deep/empty.rs", b""),
        (".hidden/needle.txt", b"needle\n"),
        ("target/out.txt", b"needle\n"),
        ("binary", b"needle\n\0\x01needle\n"),
        ("latin", b"caf\xe9 needle\n"),
        (".gitignore", b"target\n"),
    ] {
        fs::write(fixture.path(path), content).unwrap();
    }
    nix::unistd::mkfifo(&fixture.path("src/needle.fifo"), Mode::S_IRWXU).unwrap();
    drop(std::os::unix::net::UnixListener::bind(fixture.path("src/needle.socket")).unwrap());
    symlink("../../secret", fixture.path("src/needle.link")).unwrap();
    symlink("..", fixture.path("src/loop")).unwrap();
    fixture
}

#[test]
fn names_and_content_are_found_in_order() {
    let fixture = fixture();
    let base = request;
    let select = |ignore, exclude: &[&str]| Selection {
        ignore,
        exclude: exclude.iter().map(|text| (*text).to_owned()).collect(),
    };
    let table: Vec<(SearchRequest, &[&str])> = vec![
        (base(Some("*.rs"), None), &["src/deep/empty.rs", "src/deep/lib.rs", "src/main.rs"]),
        (base(Some("src/*.rs"), None), &["src/main.rs"]),
        (base(Some("needle.*"), None), &["src/needle.fifo", "src/needle.link", "src/needle.socket"]),
        (
            SearchRequest { path: "src/".into(), ..base(Some("deep/*"), None) },
            &["src/deep/empty.rs", "src/deep/lib.rs"],
        ),
        (SearchRequest { ignore_case: true, ..base(Some("readme*"), None) }, &["README.md"]),
        (SearchRequest { hidden: true, ..base(Some("needle.txt"), None) }, &[".hidden/needle.txt"]),
        (base(Some("needle.txt"), None), &[]),
        (
            base(None, Some("needle")),
            &["README.md:2:1", "latin:1:6", "src/main.rs:2:5", "src/main.rs:4:13", "target/out.txt:1:1"],
        ),
        (base(Some("*.rs"), Some("needle")), &["src/main.rs:2:5", "src/main.rs:4:13"]),
        (
            SearchRequest { ignore_case: true, path: "src/deep".into(), ..base(None, Some("NEEDLE")) },
            &["src/deep/lib.rs:1:1"],
        ),
        (
            SearchRequest { select: select(true, &["*.md", "latin"]), ..base(None, Some("needle")) },
            &["src/main.rs:2:5", "src/main.rs:4:13"],
        ),
        (
            SearchRequest { hidden: true, path: ".hidden".into(), ..base(None, Some("^needle$")) },
            &[".hidden/needle.txt:1:1"],
        ),
        (base(None, Some("^#.*e$")), &["README.md:1:1"]),
        (base(Some("absent"), Some(".")), &[]),
    ];
    for (request, expected) in table {
        let text = format!("{request:?}");
        let (items, truncated) = search(&fixture, request);
        assert_eq!(places(&items), expected, "{text}");
        assert_eq!(truncated, None, "{text}");
    }
    let (items, _) = search(&fixture, base(None, Some("needle")));
    assert_eq!(items[1].line.as_ref().unwrap().text, "caf\u{fffd} needle");
    assert_eq!(items[2].line.as_ref().unwrap().text, "    needle();", "without its end");
    let (items, _) = search(&fixture, base(Some("needle.fifo"), None));
    assert_eq!(items[0].kind, FileType::Fifo);
}

#[test]
fn what_is_no_search_is_refused_with_its_reason() {
    let fixture = fixture();
    let large = format!("({})", r"\pL{200}".repeat(20));
    let nested = format!("{}a{}", "(".repeat(500), ")".repeat(500));
    let long = "a".repeat(5000);
    let table = [
        (request(None, None), FilesErrorCode::InvalidRequest),
        (request(Some("["), None), FilesErrorCode::InvalidRequest),
        (request(Some(&long), None), FilesErrorCode::InvalidRequest),
        (request(None, Some("(")), FilesErrorCode::InvalidRequest),
        (request(None, Some("a\\nb")), FilesErrorCode::InvalidRequest),
        (request(None, Some(&large)), FilesErrorCode::InvalidRequest),
        (request(None, Some(&nested)), FilesErrorCode::InvalidRequest),
        (request(None, Some(&long)), FilesErrorCode::InvalidRequest),
        (request(None, Some("((a{100}){100}){100}")), FilesErrorCode::InvalidRequest),
        (SearchRequest { path: "absent".into(), ..request(Some("*"), None) }, FilesErrorCode::NotFound),
        (
            SearchRequest { path: "README.md".into(), ..request(Some("*"), None) },
            FilesErrorCode::NotADirectory,
        ),
        (SearchRequest { path: "src/loop/..".into(), ..request(Some("*"), None) }, FilesErrorCode::Outside),
    ];
    for (request, code) in table {
        let (done, exchange) = fixture.perform(&FilesRequest::Search(request.clone()), b"");
        assert_eq!(exchange.reply, None, "{request:?}");
        let failure = done.expect_err("refused").failure();
        assert_eq!(failure.code, code, "{request:?}: {failure:?}");
        assert!(!failure.message.is_empty());
    }
}

#[test]
fn the_number_of_matches_has_limits() {
    let fixture = Fixture::new();
    let many = "x\n".repeat(2 * SEARCH_FILE_MATCHES_MAX as usize);
    for name in ["a", "b", "c"] {
        fs::write(fixture.path(name), &many).unwrap();
    }
    let limited = |limit, content| {
        let (items, truncated) = search(&fixture, SearchRequest { limit, ..request(Some("*"), content) });
        (items.len(), truncated.is_some())
    };
    assert_eq!(limited(0, None), (1, true));
    assert_eq!(limited(2, None), (2, true));
    assert_eq!(limited(3, None), (3, false));
    assert_eq!(limited(10, Some("x")), (10, true));
    assert_eq!(limited(usize::MAX, Some("x")), (3 * SEARCH_FILE_MATCHES_MAX as usize, true));
    assert_eq!(limited(10, Some("y")), (0, false));
}

#[test]
fn a_long_line_is_cut_and_its_file_goes_on() {
    let fixture = Fixture::new();
    let mut content = b"first\n".to_vec();
    content.extend(vec![b'a'; SEARCH_LINE_MAX_BYTES - 3]);
    content.extend(b"END");
    content.extend(vec![b'b'; 8 << 20]);
    content.extend(b"beyond\nlast\n");
    fs::write(fixture.path("f"), content).unwrap();
    for (pattern, expected) in [
        ("first", vec!["f:1:1".to_owned()]),
        ("END", vec![format!("f:2:{}", SEARCH_LINE_MAX_BYTES - 2)]),
        ("beyond", vec![]),
        ("last", vec!["f:3:1".to_owned()]),
        ("^a", vec!["f:2:1".to_owned()]),
    ] {
        let (items, truncated) = search(&fixture, request(None, Some(pattern)));
        assert_eq!(places(&items), expected, "{pattern}");
        assert!(truncated.is_some(), "{pattern}");
        for item in items {
            let text = item.line.unwrap().text;
            assert!(text.len() < EXCERPT_MAX_BYTES + 10, "{pattern}: {} bytes", text.len());
            assert!(pattern.starts_with('^') || text.contains(pattern), "{pattern}: {text}");
        }
    }
}

#[test]
fn a_slow_pattern_ends_in_time_with_what_was_found() {
    let fixture = Fixture::new();
    fs::write(fixture.path("a"), "ab\n").unwrap();
    fs::write(fixture.path("b"), vec![b'a'; 1 << 20]).unwrap();
    let limit = Duration::from_secs(5);
    for pattern in [
        "(a*)*b",
        "(a|aa)+$|b",
        "(a?){100}a{100}b|ab",
        "[ab]*a[ab]{100}c|b",
        "(.*)(.*)(.*)(.*)(.*)[^a]$",
        r"(\w{1,3}\s?){1,5}b$",
    ] {
        let since = Instant::now();
        let exchange = Recorder::default();
        let found = find(&fixture.workspace, &exchange, &request(None, Some(pattern)), limit).unwrap();
        let elapsed = since.elapsed();
        assert!(elapsed < Duration::from_secs(60), "{pattern}: {elapsed:?}");
        assert_eq!(found.items[0].path.lossy(), "a", "{pattern}");
    }
}

#[test]
fn the_end_of_the_time_is_said_and_a_gone_caller_ends_it() {
    let fixture = Fixture::new();
    for name in 0..300 {
        fs::write(fixture.path(&name.to_string()), "x\n").unwrap();
    }
    let both = [request(Some("*"), None), request(None, Some("x"))];
    for request in &both {
        let found = find(&fixture.workspace, &Recorder::default(), request, Duration::ZERO).unwrap();
        assert!(found.truncated.is_some() && found.items.len() < 300, "{request:?}");
        let gone = Recorder { cancelled: true, ..Recorder::default() };
        let done = find(&fixture.workspace, &gone, request, Duration::from_secs(20));
        // The limit of matches is above what is visited before the caller is looked at.
        assert!(matches!(done, Err(FilesError::Cancelled)) || request.content.is_none(), "{request:?}");
    }
}
