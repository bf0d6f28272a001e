//! Tests of unpacking. They need root, as unpacking does.

mod bombs;
mod form;
mod hostile;
mod overlay;

use super::{UnpackError, UnpackedLayer, unpack_layer};
use crate::{
    TreeQuota,
    tar_fixture::{Entry, archive},
};
use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

/// A directory to unpack into, and a secret near it. Hostile archives aim at the secret and no higher than at `dir`: a
/// mistake costs the fixture only.
struct Fixture {
    dir: tempfile::TempDir,
    to: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("deep/to");
        fs::create_dir_all(&to).expect("made");
        fs::create_dir_all(dir.path().join("outside/sub")).expect("made");
        fs::write(dir.path().join("outside/secret"), "secret").expect("written");
        Self { dir, to }
    }

    fn unpack(&self, entries: &[Entry]) -> Result<UnpackedLayer, UnpackError> {
        self.unpack_bytes(&archive(entries))
    }

    fn unpack_bytes(&self, bytes: &[u8]) -> Result<UnpackedLayer, UnpackError> {
        unpack_layer(bytes, &self.to, &mut TreeQuota::new("the image", 16 << 20, 10_000))
    }

    /// Lists everything but the unpacked tree.
    fn outside(&self) -> Vec<String> {
        let mut lines = listing(self.dir.path());
        lines.retain(|line| !line.starts_with("deep/to/") && !line.starts_with("deep/to "));
        lines
    }
}

/// Unpacks into a new directory, and lists what is there.
fn unpacked(entries: &[Entry]) -> Vec<String> {
    let fixture = Fixture::new();
    fixture.unpack(entries).expect("accepted");
    listing(&fixture.to)
}

/// Returns one line for everything below a directory: path, kind and mode, owner, time, and content, target or
/// attribute.
fn listing(root: &Path) -> Vec<String> {
    let mut lines = vec![];
    list_below(root, root, &mut lines);
    lines.sort();
    lines
}

fn list_below(root: &Path, directory: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (path, meta) = (entry.path(), entry.metadata().expect("there"));
        let kind = meta.file_type();
        let (letter, more) = if kind.is_dir() {
            ("d", if is_opaque(&path) { "opaque".to_owned() } else { String::new() })
        } else if kind.is_symlink() {
            ("l", format!("-> {}", fs::read_link(&path).expect("a link").display()))
        } else if kind.is_file() {
            let content = fs::read(&path).expect("readable");
            ("f", content.iter().take(20).copied().collect::<Vec<u8>>().escape_ascii().to_string())
        } else if kind.is_char_device() {
            ("c", format!("{}", meta.rdev()))
        } else {
            ("?", String::new())
        };
        let name = path.strip_prefix(root).expect("below it").as_os_str().as_bytes().escape_ascii();
        let (mode, uid, gid, mtime) = (meta.mode() & 0o7777, meta.uid(), meta.gid(), meta.mtime());
        // Whiteouts and directories that no archive lists have the time at which they were made.
        let mtime = if mtime > 1_700_000_000 { "now".to_owned() } else { mtime.to_string() };
        lines.push(format!("{name} {letter}{mode:o} {uid}:{gid} {mtime} {more}").trim_end().to_owned());
        if kind.is_dir() {
            list_below(root, &path, lines);
        }
    }
}

fn is_opaque(directory: &Path) -> bool {
    xattr(directory, "trusted.overlay.opaque").as_deref() == Some(b"y")
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(length);
    Some(value)
}
