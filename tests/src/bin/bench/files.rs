//! Files through the API: against the same system calls, against nginx with the same file, and against find and tar.

mod large;
mod small;
mod trees;

use crate::{host::start_with, row::Row};
use anyhow::Result;
use serde_json::json;
use std::path::PathBuf;
use tests::{Hostd, host::Files};

/// A hostd with one sandbox.
pub struct Fixture {
    hostd: Hostd,
    files: Files,
}

impl Fixture {
    async fn start() -> Result<Self> {
        let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
        let operator = hostd.operator()?;
        let id = operator.create(&json!({})).await?;
        Ok(Self { files: Files::new(operator, id), hostd })
    }

    /// The workspace as the host sees it.
    fn workspace(&self) -> PathBuf {
        self.hostd.workspace(&self.files.sandbox)
    }

    /// `host:port` of the API.
    fn address(&self) -> &str {
        self.hostd.url().trim_start_matches("http://")
    }

    /// The head of a request with this path, up to its own headers.
    fn head(&self, method: &str, verb: &str) -> String {
        let (path, token) = (self.files.path(verb), self.files.token().unwrap_or_default());
        format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n", self.address())
    }
}

pub async fn rows() -> Result<Vec<Row>> {
    let fixture = Fixture::start().await?;
    let mut rows = small::rows(&fixture).await?;
    rows.extend(large::rows(&fixture).await?);
    rows.extend(trees::rows(&fixture).await?);
    fixture.hostd.stop().await?;
    Ok(rows)
}
