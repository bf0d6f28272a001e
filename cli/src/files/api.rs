//! The verbs of hostd on the files of one sandbox.

use super::WorkspacePath;
use crate::{
    client::{ApiRequest, ApiResponse, Client, ClientError, RequestBody},
    limits,
};
use hyper::{Response, body::Incoming};
use protocol::api::{FilePage, FileView, SandboxId, SearchView, UnpackView};
use std::sync::Arc;

#[derive(Clone)]
pub struct FileApi {
    pub client: Arc<Client>,
    pub sandbox: SandboxId,
}

/// What a list contains.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    pub recursive: bool,
    pub depth: Option<u32>,
    /// Follow the rules of `.gitignore` files.
    pub ignore: bool,
    pub exclude: Vec<String>,
}

/// How a file is written.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Permissions; those of the replaced file by default.
    pub mode: Option<u32>,
    pub append: bool,
    /// Only where no file has the path.
    pub create_only: bool,
    /// Only where the file still has this version.
    pub if_match: Option<String>,
}

impl FileApi {
    fn target(&self, verb: &str) -> String {
        format!("/v1/sandboxes/{}/files{verb}", self.sandbox)
    }

    /// Describes what has this path, or what a link there leads to.
    pub async fn stat(&self, path: &WorkspacePath, follow: bool) -> Result<FileView, ClientError> {
        let request = ApiRequest::get(self.target("/stat")).query_bytes("path", wire(path));
        self.client.send(request.query_if("follow", follow.then_some(true))).await?.parse()
    }

    /// Reads a whole list.
    pub async fn list(
        &self,
        path: &WorkspacePath,
        options: &ListOptions,
    ) -> Result<Vec<FileView>, ClientError> {
        let (mut items, mut after): (Vec<FileView>, Option<String>) = (Vec::new(), None);
        loop {
            let page: FilePage =
                self.client.send(self.list_request(path, options, after.as_deref())).await?.parse()?;
            items.extend(page.items);
            if page.next.is_none() || page.next == after || items.len() >= limits::LIST_MAX_ITEMS {
                return Ok(items);
            }
            after = page.next;
        }
    }

    fn list_request(&self, path: &WorkspacePath, options: &ListOptions, after: Option<&str>) -> ApiRequest {
        ApiRequest::get(self.target(""))
            .query_bytes("path", wire(path))
            .query("recursive", options.recursive)
            .query("limit", limits::FILES_PAGE_ITEMS)
            .query_if("depth", options.depth)
            .query_if("ignore", options.ignore.then_some(true))
            .query_if("after", after)
            .query_if("exclude", joined(&options.exclude))
    }

    /// Opens the content of a file.
    pub async fn read(&self, path: &WorkspacePath) -> Result<Response<Incoming>, ClientError> {
        self.client.open(ApiRequest::get(self.target("/content")).query_bytes("path", wire(path))).await
    }

    pub async fn write(
        &self,
        path: &WorkspacePath,
        options: &WriteOptions,
        body: RequestBody,
    ) -> Result<FileView, ClientError> {
        let mut request = ApiRequest::put(self.target("/content"))
            .query_bytes("path", wire(path))
            .query_if("mode", options.mode.map(octal))
            .query_if("append", options.append.then_some(true))
            .header("content-type", "application/octet-stream")
            .timeout(limits::TRANSFER_TIMEOUT);
        if let Some(etag) = &options.if_match {
            request = request.header("if-match", etag.clone());
        }
        if options.create_only {
            request = request.header("if-none-match", "*");
        }
        self.client.upload(request, body).await?.parse()
    }

    pub async fn delete(
        &self,
        path: &WorkspacePath,
        recursive: bool,
        if_match: Option<&str>,
    ) -> Result<(), ClientError> {
        let mut request = ApiRequest::delete(self.target("/content"))
            .query_bytes("path", wire(path))
            .query_if("recursive", recursive.then_some(true));
        if let Some(etag) = if_match {
            request = request.header("if-match", etag);
        }
        self.client.send(request).await.map(drop)
    }

    /// Makes a directory with its parents; one that exists is fine.
    pub async fn mkdir(&self, path: &WorkspacePath, mode: Option<u32>) -> Result<FileView, ClientError> {
        let request = ApiRequest::post(self.target("/mkdir")).query_bytes("path", wire(path));
        self.client.send(request.query_if("mode", mode.map(octal))).await?.parse()
    }

    /// Moves or copies within the workspace: `verb` is `move` or `copy`.
    pub async fn relocate(
        &self,
        verb: &str,
        from: &WorkspacePath,
        to: &WorkspacePath,
        overwrite: bool,
    ) -> Result<ApiResponse, ClientError> {
        let request = ApiRequest::post(self.target(&format!("/{verb}")))
            .query_bytes("from", wire(from))
            .query_bytes("to", wire(to))
            .query_if("overwrite", overwrite.then_some(true));
        self.client.send(request.timeout(limits::SETTLE_TIMEOUT)).await
    }

    pub fn search_request(&self, path: &WorkspacePath) -> ApiRequest {
        let request = ApiRequest::get(self.target("/search")).query_bytes("path", wire(path));
        request.timeout(limits::SETTLE_TIMEOUT)
    }

    pub async fn search(&self, request: ApiRequest) -> Result<SearchView, ClientError> {
        self.client.send(request).await?.parse()
    }

    /// Opens a directory as a tar archive, with names relative to it.
    pub async fn read_archive(&self, path: &WorkspacePath) -> Result<Response<Incoming>, ClientError> {
        let request = ApiRequest::get(self.target("/archive")).query_bytes("path", wire(path));
        self.client.open(request.query("format", "tar")).await
    }

    /// Unpacks a tar archive below a directory.
    pub async fn write_archive(
        &self,
        path: &WorkspacePath,
        body: RequestBody,
    ) -> Result<UnpackView, ClientError> {
        let request = ApiRequest::put(self.target("/archive"))
            .query_bytes("path", wire(path))
            .query("format", "tar")
            .header("content-type", "application/x-tar")
            .timeout(limits::TRANSFER_TIMEOUT);
        self.client.upload(request, body).await?.parse()
    }

    pub fn watch_request(&self, path: &WorkspacePath) -> ApiRequest {
        ApiRequest::get(self.target("/watch"))
            .query_bytes("path", wire(path))
            .query("recursive", true)
            .header("accept", "text/event-stream")
    }
}

/// Patterns as the API reads them. One with a comma cannot be sent; where it must hold, the caller applies it too.
pub fn joined(globs: &[String]) -> Option<String> {
    let sent: Vec<&str> = globs.iter().map(String::as_str).filter(|glob| !glob.contains(',')).collect();
    (!sent.is_empty()).then(|| sent.join(","))
}

/// A path as the API reads it, where no parameter is empty.
fn wire(path: &WorkspacePath) -> &[u8] {
    if path.is_top() { b"." } else { path.as_bytes() }
}

/// Permissions as the API writes them.
fn octal(mode: u32) -> String {
    format!("{:04o}", mode & 0o777)
}
