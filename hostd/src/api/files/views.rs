//! Entries as the API shows them.

use base64::{Engine, prelude::BASE64_STANDARD};
use hostd_core::rfc3339;
use protocol::{
    api::{FileChangeView, FilePage, FileView, SearchMatchView, SearchView, SkippedView, UnpackView},
    files::{FileChangeEvent, FileEntry, FilePath, FileTime, SearchMatch, UnpackReport},
};

/// The last second of the year 9999: a file can have any time.
const TIME_MAX_S: u64 = 253_402_300_799;

pub fn file(entry: &FileEntry) -> FileView {
    let (path, path_base64) = text(&entry.path);
    FileView {
        path,
        path_base64,
        kind: entry.kind,
        size: entry.size,
        mode: mode(entry.mode),
        links: entry.links,
        modified_at: rfc3339(time_ms(entry.modified)),
        etag: entry.etag.clone(),
        target: entry.target.as_ref().map(FilePath::lossy),
        uid: entry.owner.map(|owner| owner.uid),
        gid: entry.owner.map(|owner| owner.gid),
    }
}

pub fn mode(mode: u32) -> String {
    format!("{:04o}", mode & 0o7777)
}

pub fn time_ms(time: FileTime) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0).min(TIME_MAX_S);
    seconds * 1000 + u64::from(time.nanos.min(999_999_999) / 1_000_000)
}

/// A path as text, and in base64 where it is none.
fn text(path: &FilePath) -> (String, Option<String>) {
    match std::str::from_utf8(&path.0) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (path.lossy(), Some(BASE64_STANDARD.encode(&path.0))),
    }
}

/// A page; its cursor is the last path, percent-encoded.
pub fn page(items: &[FileEntry], more: bool) -> FilePage {
    let next = items.last().filter(|_| more).map(|last| last.path.encoded());
    FilePage { items: items.iter().map(file).collect(), next }
}

pub fn unpacked(report: &UnpackReport) -> UnpackView {
    let skipped = report.skipped.iter();
    UnpackView {
        files: report.files,
        directories: report.directories,
        symlinks: report.symlinks,
        bytes: report.bytes,
        skipped: skipped
            .map(|entry| SkippedView { path: entry.path.lossy(), reason: entry.reason.clone() })
            .collect(),
        skipped_count: report.skipped_count,
    }
}

pub fn found(items: &[SearchMatch], truncated: Option<String>) -> SearchView {
    SearchView {
        items: items.iter().map(found_one).collect(),
        truncated: truncated.is_some(),
        reason: truncated,
    }
}

fn found_one(found: &SearchMatch) -> SearchMatchView {
    let (path, path_base64) = text(&found.path);
    let line = found.line.as_ref();
    SearchMatchView {
        path,
        path_base64,
        kind: found.kind,
        size: found.size,
        line: line.map(|line| line.number),
        column: line.map(|line| line.column),
        text: line.map(|line| line.text.clone()),
    }
}

pub fn change(event: &FileChangeEvent) -> FileChangeView {
    let (path, path_base64) = text(&event.path);
    FileChangeView {
        path,
        path_base64,
        directory: event.directory,
        from: event.from.as_ref().map(FilePath::lossy),
    }
}
