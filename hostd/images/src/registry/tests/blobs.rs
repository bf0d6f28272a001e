//! Downloads of blobs.

use super::{
    LAYER_TYPE, PATIENT, client, client_of, client_with, descriptor,
    fake_registry::{FakeRegistry, Reply, Seen},
    image, text,
};
use crate::RegistryError;
use std::{fs, path::PathBuf, sync::Mutex, time::Duration};

const BLOB: &[u8] = b"0123456789abcdef";

struct Fetched {
    result: Result<(), RegistryError>,
    /// Content of the file afterwards.
    file: Vec<u8>,
    /// Ranges that were asked for.
    ranges: Vec<Option<String>>,
    progress: Vec<u64>,
}

/// Downloads `BLOB` to a file with some content, from a registry with this script.
async fn fetch(content: &[u8], script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Fetched {
    fetch_within(PATIENT, content, script).await
}

/// Downloads with a client that waits so long for a server.
async fn fetch_within(
    wait: Duration,
    content: &[u8],
    script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
) -> Fetched {
    let registry = FakeRegistry::start(script).await;
    let dir = tempfile::tempdir().expect("a directory");
    let to: PathBuf = dir.path().join("blob");
    fs::write(&to, content).expect("written");
    let progress = Mutex::new(Vec::new());
    let report = |bytes| progress.lock().expect("one writer").push(bytes);
    let (client, image) = (client_with(&[&registry.authority], wait), image(&registry, "app"));
    let result = client.fetch_blob(&image, &descriptor(LAYER_TYPE, BLOB), None, &to, &report).await;
    let ranges = registry.seen().iter().map(|seen| seen.header("range").map(str::to_owned)).collect();
    let file = fs::read(&to).expect("read");
    Fetched { result, file, ranges, progress: progress.into_inner().expect("one writer") }
}

fn ranges(fetched: &Fetched) -> Vec<&str> {
    fetched.ranges.iter().map(|range| range.as_deref().unwrap_or("all")).collect()
}

#[tokio::test]
async fn a_blob_is_downloaded_and_its_progress_told() {
    for chunked in [false, true] {
        let reply = if chunked { Reply::ok(BLOB).chunked() } else { Reply::ok(BLOB) };
        let fetched = fetch(b"", move |_, _| reply.clone()).await;
        fetched.result.as_ref().expect("downloaded");
        assert_eq!((fetched.file.as_slice(), ranges(&fetched)), (BLOB, vec!["all"]));
        assert_eq!((fetched.progress.first(), fetched.progress.last()), (Some(&0), Some(&16)));
    }
}

#[tokio::test]
async fn a_download_continues_where_it_was_interrupted() {
    let fetched = fetch(b"0123", |seen, before| {
        let reply = Reply::range_of(BLOB, seen);
        if before < 4 { reply.dropped_after(2) } else { reply }
    })
    .await;
    fetched.result.as_ref().expect("downloaded");
    assert_eq!(fetched.file, BLOB);
    let expected = ["bytes=4-", "bytes=6-", "bytes=8-", "bytes=10-", "bytes=12-"];
    assert_eq!(ranges(&fetched), expected, "more attempts than without progress");
    assert!(fetched.progress.is_sorted() && fetched.progress.first() == Some(&4), "{:?}", fetched.progress);
}

#[tokio::test]
async fn a_download_that_stalls_continues_on_another_connection() {
    let fetched = fetch_within(Duration::from_secs(2), b"", |seen, before| {
        let reply = Reply::range_of(BLOB, seen);
        if before == 0 { reply.silent_after(5) } else { reply }
    })
    .await;
    fetched.result.as_ref().expect("downloaded");
    assert_eq!((fetched.file.as_slice(), ranges(&fetched)), (BLOB, vec!["all", "bytes=5-"]));
}

#[tokio::test]
async fn a_short_response_is_continued_and_a_short_blob_refused() {
    let fetched = fetch(b"", |seen, before| match before {
        0 => Reply::ok(&BLOB[..10]),
        _ => Reply::range_of(BLOB, seen),
    })
    .await;
    fetched.result.as_ref().expect("downloaded");
    assert_eq!(ranges(&fetched), ["all", "bytes=10-"]);

    let fetched = fetch(b"", |seen, _| Reply::range_of(&BLOB[..10], seen)).await;
    let error = fetched.result.expect_err("too short");
    assert!(text(&error).contains("delivered less than the 16 bytes of sha256:"), "{error}");
}

#[tokio::test]
async fn a_server_without_ranges_starts_over() {
    let fetched = fetch(b"0123", |_, before| match before {
        0 => Reply::ok(BLOB).dropped_after(9),
        _ => Reply::ok(BLOB),
    })
    .await;
    fetched.result.as_ref().expect("downloaded");
    assert_eq!((fetched.file.as_slice(), ranges(&fetched)), (BLOB, vec!["bytes=4-", "bytes=9-"]));
}

#[tokio::test]
async fn another_part_than_asked_for_is_refused() {
    for range in ["bytes 3-15/16", "bytes 4-15/17", "bytes 4-16/*", "items 4-15/16", ""] {
        let fetched =
            fetch(b"0123", move |_, _| Reply::ok(&BLOB[4..]).status(206).header("content-range", range))
                .await;
        let error = fetched.result.expect_err("another part");
        assert!(text(&error).contains("it sent another part of a blob than asked for"), "{range}: {error}");
        assert_eq!(fetched.file, b"0123");
    }
    let fetched = fetch(b"", |_, _| Reply::ok(BLOB).status(206)).await;
    assert!(matches!(fetched.result, Err(RegistryError::Unexpected { .. })));
}

#[tokio::test]
async fn a_blob_with_more_bytes_than_announced_is_refused_at_once() {
    let long = [BLOB, b"x"].concat();
    for reply in [Reply::ok(long.clone()), Reply::ok(long).chunked()] {
        let fetched = fetch(b"", move |_, _| reply.clone()).await;
        let error = fetched.result.expect_err("too long");
        assert!(text(&error).contains("delivered more than the 16 bytes of sha256:"), "{error}");
        assert_eq!((fetched.file.len(), fetched.ranges.len()), (0, 1));
    }
}

#[tokio::test]
async fn a_blob_with_a_wrong_digest_is_refused_and_not_kept() {
    let fetched = fetch(b"", |_, _| Reply::ok("fedcba9876543210")).await;
    let error = fetched.result.expect_err("wrong");
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
    assert_eq!((fetched.file.len(), fetched.ranges.len()), (0, 1));
}

#[tokio::test]
async fn a_file_that_does_not_fit_is_downloaded_again() {
    let long = [BLOB, BLOB].concat();
    let table: [(&[u8], &[&str]); 4] =
        [(b"xxxx", &["bytes=4-", "all"]), (b"xxxxxxxxxxxxxxxx", &["all"]), (&long, &["all"]), (BLOB, &[])];
    for (content, expected) in table {
        let fetched = fetch(content, |seen, _| Reply::range_of(BLOB, seen)).await;
        fetched.result.as_ref().expect("downloaded");
        assert_eq!((fetched.file.as_slice(), ranges(&fetched)), (BLOB, expected.to_vec()));
    }
}

#[tokio::test]
async fn a_server_that_never_delivers_is_given_up_and_the_part_is_kept() {
    for status in [206, 503, 429] {
        let fetched = fetch(b"0123", move |seen, before| match (before, status) {
            (0, _) => Reply::range_of(BLOB, seen).dropped_after(3),
            (_, 206) => Reply::range_of(BLOB, seen).dropped_after(0),
            (_, status) => Reply::new(status),
        })
        .await;
        assert!(matches!(fetched.result, Err(RegistryError::Unavailable { .. })), "{:?}", fetched.result);
        assert_eq!(fetched.file, b"0123456", "{status}");
        assert_eq!(ranges(&fetched), ["bytes=4-", "bytes=7-", "bytes=7-"], "{status}");
    }
}

#[tokio::test]
async fn a_blob_of_no_bytes_needs_no_request() {
    let registry = FakeRegistry::start(|_, _| Reply::new(500)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("blob");
    let empty = descriptor(LAYER_TYPE, b"");
    let client = client_of(&registry);
    client.fetch_blob(&image(&registry, "app"), &empty, None, &to, &|_| ()).await.expect("nothing to do");
    assert_eq!((fs::read(&to).expect("made").len(), registry.lines().len()), (0, 0));
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_told() {
    let registry = FakeRegistry::start(|_, _| Reply::ok(BLOB)).await;
    let to = PathBuf::from("/nowhere/at/all/blob");
    let blob = descriptor(LAYER_TYPE, BLOB);
    let result = client_of(&registry).fetch_blob(&image(&registry, "app"), &blob, None, &to, &|_| ()).await;
    let error = result.expect_err("no such directory");
    assert!(
        text(&error).starts_with("could not write the blob to /nowhere/at/all/blob: No such file"),
        "{error}"
    );
}

#[tokio::test]
async fn a_blob_comes_from_a_content_server_that_is_asked_for_the_rest() {
    let content = FakeRegistry::start(|seen, before| {
        let reply = Reply::range_of(BLOB, seen);
        if before == 0 { reply.dropped_after(5) } else { reply }
    })
    .await;
    let location = format!("http://{}/x?signature=1", content.authority);
    let registry = FakeRegistry::start(move |_, _| Reply::redirect(location.as_str())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("blob");
    let client = client(&[&registry.authority, &content.authority]);
    let blob = descriptor(LAYER_TYPE, BLOB);
    client.fetch_blob(&image(&registry, "app"), &blob, None, &to, &|_| ()).await.expect("downloaded");
    assert_eq!(fs::read(&to).expect("read"), BLOB);
    let asked: Vec<Option<String>> =
        content.seen().iter().map(|seen| seen.header("range").map(str::to_owned)).collect();
    assert_eq!(asked, [None, Some("bytes=5-".to_owned())]);
}
