//! Files of the fake hostd: a directory on disk, by the same rules as the real one where the command depends on them.

use super::{
    WEB,
    serve::{Body, Pieces, error, json_response, response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Frame, Incoming},
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs, io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tokio::sync::broadcast;

pub struct Files {
    pub root: tempfile::TempDir,
    events: broadcast::Sender<String>,
    /// Requests so far, as `METHOD verb path`.
    pub seen: Mutex<Vec<String>>,
    /// An archive that is served in place of a real one.
    pub archive: Mutex<Option<Vec<u8>>>,
}

impl Default for Files {
    fn default() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        Self { root, events: broadcast::channel(64).0, seen: Mutex::default(), archive: Mutex::default() }
    }
}

type Query = HashMap<String, Vec<u8>>;

impl Files {
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub fn put(&self, relative: &str, content: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, content).expect("written");
    }

    pub fn read(&self, relative: &str) -> Option<String> {
        fs::read_to_string(self.path(relative)).ok()
    }

    /// Sends an event to those who watch.
    pub fn tell(&self, event: &str, path: &str) {
        let data = json!({ "path": path, "directory": false });
        let _ = self.events.send(format!("id: 1-1\nevent: {event}\ndata: {data}\n\n"));
    }

    pub fn is_for(path: &str) -> bool {
        path.starts_with(&format!("/v1/sandboxes/{WEB}/files"))
    }

    pub async fn answer(self: Arc<Self>, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        // A body that breaks off changes nothing.
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let prefix = format!("/v1/sandboxes/{WEB}/files");
        let verb =
            head.uri.path().strip_prefix(&prefix).unwrap_or_default().trim_start_matches('/').to_owned();
        let query = parse_query(head.uri.query().unwrap_or_default());
        let relative = query.get("path").or(query.get("from")).cloned().unwrap_or_default();
        let shown = String::from_utf8_lossy(&relative).into_owned();
        self.seen.lock().expect("no panic").push(format!("{} {verb} {shown}", head.method));
        let path = self.resolve(&relative);
        let answered = match (head.method.as_str(), verb.as_str()) {
            ("GET", "stat") => self.stat(&path, query.contains_key("follow")),
            ("GET", "") => self.list(&path, query.get("recursive").is_some_and(|value| value == b"true")),
            ("GET", "content") => self.content(&path),
            ("PUT", "content") => self.write(&path, &query, &head.headers, &body),
            ("DELETE", "content") => self.delete(&path, query.contains_key("recursive"), &head.headers),
            ("POST", "mkdir") => fs::create_dir_all(&path).and_then(|()| self.stat(&path, false)),
            ("POST", "move") => {
                let to = self.resolve(&query["to"]);
                fs::rename(&path, &to).and_then(|()| self.stat(&to, false))
            }
            ("POST", "copy") => {
                let to = self.resolve(&query["to"]);
                fs::copy(&path, &to).and_then(|_| self.stat(&to, false))
            }
            ("GET", "archive") => self.archive(&path),
            ("PUT", "archive") => self.unpack(&path, &body),
            ("GET", "search") => self.search(&path, &query),
            ("GET", "watch") => Ok(self.watch()),
            _ => Ok(json_response(404, &error("not_found", "no such route"))),
        };
        answered.or_else(|failed| Ok(refusal(&failed, &shown)))
    }

    fn resolve(&self, relative: &[u8]) -> PathBuf {
        self.root.path().join(std::ffi::OsStr::from_bytes(relative))
    }

    fn stat(&self, path: &Path, follow: bool) -> io::Result<Response<Body>> {
        Ok(json_response(200, &self.entry(path, follow)?))
    }

    fn entry(&self, path: &Path, follow: bool) -> io::Result<Value> {
        let found = if follow { fs::metadata(path)? } else { fs::symlink_metadata(path)? };
        let kind = if found.is_dir() {
            "directory"
        } else if found.is_symlink() {
            "symlink"
        } else {
            "file"
        };
        let relative = path.strip_prefix(self.root.path()).map_err(io::Error::other)?;
        let target = fs::read_link(path).ok().map(|target| target.to_string_lossy().into_owned());
        Ok(
            json!({ "path": relative.to_string_lossy().trim_end_matches('/'), "type": kind, "size": found.len(),
            "mode": format!("{:04o}", found.permissions().mode() & 0o777), "links": found.nlink(),
            "modified_at": "2026-11-17T08:00:00.123456789Z", "etag": etag(&found), "target": target }),
        )
    }

    fn list(&self, path: &Path, recursive: bool) -> io::Result<Response<Body>> {
        let mut items = Vec::new();
        self.collect(path, recursive, &mut items)?;
        Ok(json_response(200, &json!({ "items": items, "next": null })))
    }

    fn collect(&self, path: &Path, recursive: bool, items: &mut Vec<Value>) -> io::Result<()> {
        let mut names: Vec<_> =
            fs::read_dir(path)?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.sort();
        for name in names {
            let below = path.join(name);
            items.push(self.entry(&below, false)?);
            if recursive && below.symlink_metadata()?.is_dir() {
                self.collect(&below, true, items)?;
            }
        }
        Ok(())
    }

    fn content(&self, path: &Path) -> io::Result<Response<Body>> {
        let (bytes, found) = (fs::read(path)?, fs::metadata(path)?);
        let mut response = response(200, vec![Ok(Frame::data(Bytes::from(bytes)))]);
        let headers = response.headers_mut();
        headers.insert("etag", etag(&found).parse().expect("a value"));
        let mode = format!("{:04o}", found.permissions().mode() & 0o777);
        headers.insert("x-file-mode", mode.parse().expect("a value"));
        Ok(response)
    }

    fn write(
        &self,
        path: &Path,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> io::Result<Response<Body>> {
        let found = fs::symlink_metadata(path).ok();
        if let Some(refused) = condition(found.as_ref(), headers) {
            return Ok(refused);
        }
        if found.is_some_and(|found| found.is_dir()) {
            return Ok(json_response(409, &error("not_a_file", "it is a directory")));
        }
        fs::create_dir_all(path.parent().expect("a parent"))?;
        let mut content =
            if query.contains_key("append") { fs::read(path).unwrap_or_default() } else { Vec::new() };
        content.extend_from_slice(body);
        fs::write(path, content)?;
        if let Some(mode) = query.get("mode") {
            let mode = u32::from_str_radix(&String::from_utf8_lossy(mode), 8).expect("octal");
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        self.stat(path, false)
    }

    fn delete(&self, path: &Path, recursive: bool, headers: &HeaderMap) -> io::Result<Response<Body>> {
        let found = fs::symlink_metadata(path)?;
        if let Some(refused) = condition(Some(&found), headers) {
            return Ok(refused);
        }
        if !found.is_dir() {
            fs::remove_file(path)?;
        } else if recursive {
            fs::remove_dir_all(path)?;
        } else {
            fs::remove_dir(path)?;
        }
        Ok(response(204, Pieces::new()))
    }

    fn archive(&self, path: &Path) -> io::Result<Response<Body>> {
        let prepared = self.archive.lock().expect("no panic").clone();
        let bytes = match prepared {
            Some(bytes) => bytes,
            None => {
                let mut archive = tar::Builder::new(Vec::new());
                archive.follow_symlinks(false);
                archive.append_dir_all("", path)?;
                archive.into_inner()?
            }
        };
        let pieces = bytes.chunks(1000).map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk)))).collect();
        Ok(response(200, pieces))
    }

    fn unpack(&self, path: &Path, body: &Bytes) -> io::Result<Response<Body>> {
        tar::Archive::new(body.as_ref()).unpack(path)?;
        let view = json!({ "files": 0, "directories": 0, "symlinks": 0, "bytes": body.len(), "skipped": [], "skipped_count": 0 });
        Ok(json_response(200, &view))
    }

    /// Names by their end, content by a part of it.
    fn search(&self, path: &Path, query: &Query) -> io::Result<Response<Body>> {
        let text = |name: &str| query.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        let end = text("name").unwrap_or_default().trim_start_matches('*').to_owned();
        let mut items = Vec::new();
        self.collect(path, true, &mut items)?;
        items.retain(|item| item["type"] == "file" && item["path"].as_str().expect("text").ends_with(&end));
        if let Some(content) = text("content") {
            let found = |item: &Value| -> Option<Value> {
                let all = self.read(item["path"].as_str()?)?;
                let (at, line) = all.lines().enumerate().find(|(_, line)| line.contains(&content))?;
                Some(json!({ "path": item["path"], "type": "file", "size": 0, "line": at + 1, "text": line }))
            };
            items = items.iter().filter_map(found).collect();
        }
        Ok(json_response(200, &json!({ "items": items, "truncated": false })))
    }

    fn watch(&self) -> Response<Body> {
        let events = self.events.subscribe();
        let first = stream::iter(["id: 1-0\nevent: ready\ndata: {}\n\n".to_owned()]);
        let later =
            stream::unfold(events, |mut events| async move { Some((events.recv().await.ok()?, events)) });
        let frames = first.chain(later).map(|text| Ok(Frame::data(Bytes::from(text))));
        Response::new(StreamBody::new(Box::pin(frames) as _))
    }
}

/// Refuses a change whose condition does not hold.
fn condition(found: Option<&fs::Metadata>, headers: &HeaderMap) -> Option<Response<Body>> {
    let expected = headers.get("if-match").and_then(|value| value.to_str().ok());
    let changed = expected.is_some_and(|etag_then| found.map(etag).as_deref() != Some(etag_then));
    let exists = headers.contains_key("if-none-match") && found.is_some();
    (changed || exists).then(|| json_response(412, &error("precondition_failed", "it is another version")))
}

fn etag(found: &fs::Metadata) -> String {
    format!("\"{}-{}-{}-{}\"", found.ino(), found.ctime(), found.ctime_nsec(), found.len())
}

fn refusal(failed: &io::Error, path: &str) -> Response<Body> {
    let (status, code) = match failed.kind() {
        io::ErrorKind::NotFound => (404, "not_found"),
        io::ErrorKind::NotADirectory => (409, "not_a_directory"),
        io::ErrorKind::DirectoryNotEmpty => (409, "not_empty"),
        io::ErrorKind::IsADirectory => (409, "not_a_file"),
        _ => (500, "internal"),
    };
    json_response(status, &error(code, &format!("{path}: {failed}")))
}

fn parse_query(query: &str) -> Query {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            if *first == b'%' {
                let digits = std::str::from_utf8(&tail[..2]).expect("digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
                rest = &tail[2..];
            } else {
                bytes.push(*first);
                rest = tail;
            }
        }
        bytes
    };
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), decode(value)));
    query.split('&').filter_map(pair).collect()
}
