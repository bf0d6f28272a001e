//! The files of one sandbox, through the API.

use super::{Caller, Reply};
use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use protocol::{
    api::{ApiErrorCode, FilePage, FileView},
    files::FilePath,
};
use std::ops::Deref;

pub struct Files {
    caller: Caller,
    pub sandbox: String,
}

impl Deref for Files {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

/// Headers of a request.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

impl Files {
    pub fn new(caller: Caller, sandbox: String) -> Self {
        Self { caller, sandbox }
    }

    /// `verb` with its query: `stat?path=a`.
    pub fn path(&self, verb: &str) -> String {
        format!("/v1/sandboxes/{}/files/{verb}", self.sandbox)
    }

    pub async fn request(
        &self,
        method: Method,
        verb: &str,
        headers: Headers<'_>,
        body: &[u8],
    ) -> Result<Reply> {
        let mut request = Request::builder().method(method).uri(self.path(verb));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.caller.call(request.body(Full::new(Bytes::copy_from_slice(body)))?).await
    }

    pub async fn read(&self, path: &str, headers: Headers<'_>) -> Result<Reply> {
        self.request(Method::GET, &format!("content?path={}", encoded(path)), headers, b"").await
    }

    /// The content of a file that is there.
    pub async fn content(&self, path: &str) -> Result<Bytes> {
        let reply = self.read(path, &[]).await?;
        ensure!(reply.status == 200, "{path}: {} {}", reply.status, reply.text());
        Ok(reply.body)
    }

    pub async fn write(&self, path: &str, headers: Headers<'_>, body: &[u8]) -> Result<Reply> {
        self.request(Method::PUT, &format!("content?path={}", encoded(path)), headers, body).await
    }

    /// Writes a file that can be written.
    pub async fn put(&self, path: &str, body: &[u8]) -> Result<FileView> {
        let reply = self.write(path, &[], body).await?;
        ensure!(reply.status == 200 || reply.status == 201, "{path}: {} {}", reply.status, reply.text());
        reply.json()
    }

    pub async fn list(&self, query: &str) -> Result<FilePage> {
        self.caller.get(&format!("/v1/sandboxes/{}/files?{query}", self.sandbox)).await?.expect(200)
    }

    /// The paths of a list.
    pub async fn names(&self, query: &str) -> Result<Vec<String>> {
        Ok(self.list(query).await?.items.into_iter().map(|item| item.path).collect())
    }

    /// A request with an empty body that must be refused with this code.
    pub async fn refused(&self, method: Method, verb: &str, code: ApiErrorCode) -> Result<()> {
        let reply = self.request(method.clone(), verb, &[], b"").await?;
        ensure!(
            reply.status == code.http_status() && reply.code()? == code,
            "{method} {verb}: {}",
            reply.text()
        );
        Ok(())
    }
}

/// A path as a query has it.
pub fn encoded(path: &str) -> String {
    FilePath::from(path).encoded()
}
