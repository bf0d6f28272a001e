//! Does one step. Every step checks that the side it changes is still as the plan saw it: a change that comes in
//! between is not lost, and the next pass decides anew.

use super::{
    local_tree::{file_node, node_at},
    remote_tree::{RemoteDirectory, is_missing, node_of},
    tree::{Node, Synced, Tree, Version},
};
use crate::{
    client::ClientError,
    failure::Failure,
    files::{
        Beneath, PartialFile, ReadError, Transfer, WriteOptions, body_of, body_of_reader, link_stays_beneath,
        open_regular, os_name, pack_link, read_body,
    },
};
use hyper::{Response, body::Incoming};
use protocol::api::ApiErrorCode;
use std::{
    fs, io,
    io::Read,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The two sides as the plan saw them.
pub struct Sides<'a> {
    pub local: &'a Beneath,
    pub remote: &'a RemoteDirectory,
    pub local_tree: &'a Tree,
    pub remote_tree: &'a Tree,
}

/// How a step ended.
#[derive(Debug)]
pub enum Applied {
    /// Both sides are the same now.
    Synced(Synced),
    /// Neither side has it now.
    Removed,
    /// One side changed meanwhile.
    Changed,
    /// It cannot be synchronised, for this reason.
    LeftOut(String),
}

type StepResult = Result<Applied, Failure>;

impl Sides<'_> {
    pub async fn upload(&self, name: &[u8]) -> StepResult {
        let Some(node) = self.local_tree.get(name) else { return Ok(Applied::Changed) };
        let before = self.remote_tree.get(name);
        // Something of another kind makes room first.
        let other_kind = before.is_some_and(|before| !same_kind(before, node));
        if other_kind && !self.remove_remote(name, before).await? {
            return Ok(Applied::Changed);
        }
        let before = before.filter(|_| !other_kind);
        let sent = match node {
            Node::Directory => {
                self.remote.api.mkdir(&self.remote.path_of(name), None).await.map(|made| node_of(&made))
            }
            Node::Link { target } => return self.upload_link(name, target).await,
            Node::File { mode, .. } => return self.upload_file(name, (node, *mode), before).await,
        };
        match sent {
            Ok(Some(remote)) => Ok(Applied::Synced(Synced { local: node.clone(), remote })),
            Ok(None) => Ok(Applied::Changed),
            Err(error) => changed_or(error),
        }
    }

    async fn upload_file(
        &self,
        name: &[u8],
        (node, mode): (&Node, u32),
        before: Option<&Node>,
    ) -> StepResult {
        let path = match self.local.find(name) {
            Ok(path) => path,
            Err(_) => return Ok(Applied::Changed),
        };
        let (file, metadata) = match open_regular(&path, false) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Applied::LeftOut("permission denied".to_owned()));
            }
            Err(_) => return Ok(Applied::Changed),
        };
        if file_node(&metadata) != *node {
            return Ok(Applied::Changed);
        }
        let if_match = before.and_then(etag);
        let create_only = if_match.is_none();
        let options = WriteOptions { mode: Some(mode), append: false, create_only, if_match };
        let body = body_of_reader(Arc::new(Transfer::silent()), file);
        match self.remote.api.write(&self.remote.path_of(name), &options, body).await {
            // Written while it was read: the next pass sends it again.
            Ok(_) if node_at(&path).ok().flatten().as_ref() != Some(node) => Ok(Applied::Changed),
            Ok(written) => Ok(match node_of(&written) {
                Some(remote) => Applied::Synced(Synced { local: node.clone(), remote }),
                None => Applied::Changed,
            }),
            Err(error) => changed_or(error),
        }
    }

    /// Links are made by an archive: no other verb makes them.
    async fn upload_link(&self, name: &[u8], target: &[u8]) -> StepResult {
        let (link, to) = (name.to_vec(), target.to_vec());
        let body = body_of(Arc::new(Transfer::silent()), move |writer| pack_link(&link, &to, writer));
        match self.remote.api.write_archive(&self.remote.path, body).await {
            Ok(unpacked) if unpacked.skipped.is_empty() => {
                let node = Node::Link { target: target.to_vec() };
                Ok(Applied::Synced(Synced { local: node.clone(), remote: node }))
            }
            Ok(unpacked) => Ok(Applied::LeftOut(
                unpacked.skipped.first().map(|one| one.reason.clone()).unwrap_or_default(),
            )),
            Err(error) => changed_or(error),
        }
    }

    pub async fn download(&self, name: &[u8]) -> StepResult {
        let Some(node) = self.remote_tree.get(name) else { return Ok(Applied::Changed) };
        let path = match self.local.prepare(name) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Ok(Applied::LeftOut(error.to_string()));
            }
            Err(error) => return Err(cannot_write(&os_path(name), error)),
        };
        let before = self.local_tree.get(name);
        match node {
            Node::Directory => {
                if !is_unchanged(&path, before) {
                    return Ok(Applied::Changed);
                }
                make_directory(&path).map_err(|error| cannot_write(&path, error))?;
                Ok(Applied::Synced(Synced { local: Node::Directory, remote: Node::Directory }))
            }
            Node::Link { target } if !link_stays_beneath(name, target) => {
                Ok(Applied::LeftOut("it is a link out of the directory".to_owned()))
            }
            Node::Link { target } => {
                if !is_unchanged(&path, before) || !make_room(&path) {
                    return Ok(Applied::Changed);
                }
                symlink(os_name(target), &path).map_err(|error| cannot_write(&path, error))?;
                Ok(Applied::Synced(Synced { local: node.clone(), remote: node.clone() }))
            }
            Node::File { .. } => self.download_file(name, path, before.cloned()).await,
        }
    }

    async fn download_file(&self, name: &[u8], path: PathBuf, before: Option<Node>) -> StepResult {
        let response = match self.remote.api.read(&self.remote.path_of(name)).await {
            Ok(response) => response,
            Err(error) => return changed_or(error),
        };
        let Some((etag, mode)) = version_of(&response) else { return Ok(Applied::Changed) };
        let target = path.clone();
        let saved = read_body(Arc::new(Transfer::silent()), response.into_body(), move |body| {
            let mut file = PartialFile::create(&target)?;
            let size = io::copy(body, &mut file)?;
            if !is_unchanged(&target, before.as_ref()) || !make_room_for_file(&target) {
                return Ok(None);
            }
            file.finish(&target, mode)?;
            Ok(Some(size))
        });
        let size = match saved.await {
            Ok(Some(size)) => size,
            Ok(None) => return Ok(Applied::Changed),
            Err(ReadError::Remote(error)) => return Err(error.into()),
            Err(ReadError::Local(error)) => return Err(cannot_write(&path, error)),
        };
        let remote = Node::File { size, mode, version: Version::Remote(etag) };
        match node_at(&path).map_err(|error| cannot_write(&path, error))? {
            Some(local @ Node::File { .. }) => Ok(Applied::Synced(Synced { local, remote })),
            Some(_) | None => Ok(Applied::Changed),
        }
    }

    /// Compares the bytes of both sides. `None`: they are different.
    pub async fn compare(&self, name: &[u8]) -> Result<Option<Applied>, Failure> {
        let (Some(node), Ok(path)) = (self.local_tree.get(name).cloned(), self.local.find(name)) else {
            return Ok(Some(Applied::Changed));
        };
        let response = match self.remote.api.read(&self.remote.path_of(name)).await {
            Ok(response) => response,
            Err(error) => return changed_or(error).map(Some),
        };
        let Some((etag, mode)) = version_of(&response) else { return Ok(Some(Applied::Changed)) };
        let Ok((file, _)) = open_regular(&path, false) else { return Ok(Some(Applied::Changed)) };
        let compared =
            read_body(Arc::new(Transfer::silent()), response.into_body(), move |body| same_bytes(body, file));
        match compared.await {
            Ok(Some(size)) if is_unchanged(&path, Some(&node)) => {
                let remote = Node::File { size, mode, version: Version::Remote(etag) };
                Ok(Some(Applied::Synced(Synced { local: node, remote })))
            }
            Ok(Some(_)) => Ok(Some(Applied::Changed)),
            Ok(None) => Ok(None),
            Err(ReadError::Remote(error)) => Err(error.into()),
            Err(ReadError::Local(error)) => Err(Failure::io(format!("read {}", path.display()), error)),
        }
    }

    pub async fn delete_local(&self, name: &[u8]) -> StepResult {
        // The list may have missed it, or hides it.
        match self.remote.api.stat(&self.remote.path_of(name), false).await {
            Ok(_) => return Ok(Applied::Changed),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let Ok(path) = self.local.find(name) else { return Ok(Applied::Changed) };
        if !is_unchanged(&path, self.local_tree.get(name)) {
            return Ok(Applied::Changed);
        }
        let is_directory = self.local_tree.get(name).is_some_and(Node::is_directory);
        let removed = if is_directory { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        match removed {
            Ok(()) => Ok(Applied::Removed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Applied::Removed),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(Applied::LeftOut("the directory has files here that are not synchronised".to_owned()))
            }
            Err(error) => Err(Failure::io(format!("delete {}", path.display()), error)),
        }
    }

    pub async fn delete_remote(&self, name: &[u8]) -> StepResult {
        let gone = match self.local.find(name) {
            Ok(path) => node_at(&path).is_ok_and(|node| node.is_none()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !gone {
            return Ok(Applied::Changed);
        }
        let before = self.remote_tree.get(name);
        match self
            .remote
            .api
            .delete(&self.remote.path_of(name), false, before.and_then(etag).as_deref())
            .await
        {
            Ok(()) => Ok(Applied::Removed),
            Err(error) if is_missing(&error) => Ok(Applied::Removed),
            Err(error) if error.is(ApiErrorCode::NotEmpty) => {
                Ok(Applied::LeftOut("the directory has files there that are not synchronised".to_owned()))
            }
            Err(error) => changed_or(error),
        }
    }

    /// Removes what has the path there, if it is still the same; returns whether nothing has it now.
    async fn remove_remote(&self, name: &[u8], before: Option<&Node>) -> Result<bool, Failure> {
        let path = self.remote.path_of(name);
        match self.remote.api.delete(&path, false, before.and_then(etag).as_deref()).await {
            Ok(()) => Ok(true),
            Err(error) if is_missing(&error) => Ok(true),
            Err(error) => changed_or(error).map(|_| false),
        }
    }
}

fn same_kind(one: &Node, other: &Node) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

fn etag(node: &Node) -> Option<String> {
    match node {
        Node::File { version: Version::Remote(etag), .. } => Some(etag.clone()),
        Node::File { version: Version::Local { .. }, .. } | Node::Directory | Node::Link { .. } => None,
    }
}

/// A refusal that means: the other side is not as it was.
fn changed_or(error: ClientError) -> StepResult {
    use ApiErrorCode::{AccessDenied, FileExists, NotADirectory, NotAFile, NotEmpty, PreconditionFailed};
    let changed = [FileExists, NotAFile, NotADirectory, NotEmpty, PreconditionFailed];
    if is_missing(&error) || changed.into_iter().any(|code| error.is(code)) {
        return Ok(Applied::Changed);
    }
    if error.is(AccessDenied) {
        return Ok(Applied::LeftOut("the sandbox's user may not do that".to_owned()));
    }
    Err(error.into())
}

fn version_of(response: &Response<Incoming>) -> Option<(String, u32)> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let mode = header("x-file-mode").and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(0o644);
    Some((header("etag")?.to_owned(), mode & 0o777))
}

fn is_unchanged(path: &Path, before: Option<&Node>) -> bool {
    node_at(path).is_ok_and(|now| now.as_ref() == before)
}

/// Makes a directory where a file or nothing is.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        fs::remove_file(path)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Removes a file, a link or an empty directory; returns whether nothing has the path now.
fn make_room(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir(path).is_ok(),
        Ok(_) => fs::remove_file(path).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// A file replaces another one as a whole; only a directory has to go before.
fn make_room_for_file(path: &Path) -> bool {
    !path.symlink_metadata().is_ok_and(|found| found.is_dir()) || fs::remove_dir(path).is_ok()
}

/// The common length where both are the same to the end.
fn same_bytes(one: &mut dyn Read, mut other: fs::File) -> io::Result<Option<u64>> {
    let (mut theirs, mut ours) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut size = 0;
    loop {
        let count = one.read(&mut theirs)?;
        if count == 0 {
            return Ok((other.read(&mut ours[..1])? == 0).then_some(size));
        }
        size += count as u64;
        match other.read_exact(&mut ours[..count]) {
            Ok(()) if ours[..count] == theirs[..count] => {}
            Ok(()) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn os_path(name: &[u8]) -> PathBuf {
    PathBuf::from(os_name(name))
}

fn cannot_write(path: &Path, error: io::Error) -> Failure {
    Failure::io(format!("write {}", path.display()), error)
}
