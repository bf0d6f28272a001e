//! Replaces text in files: read here, and written back with the same permissions.

use super::{
    super::{SandboxResult, error::SandboxError, limits},
    ExecdCall,
    download::{self, ReadRange},
    files::check_count,
    place::absolute,
    upload::{self, WriteOptions},
};
use crate::{percent, respond};
use axum::body::Body;
use hyper::{StatusCode, header::ETAG};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How often a file is read that something else keeps changing.
const TRIES_MAX: u32 = 5;

#[derive(Debug, Deserialize)]
pub struct ReplaceItem {
    old: String,
    new: String,
}

pub async fn replace(
    call: &ExecdCall,
    items: BTreeMap<String, ReplaceItem>,
    query: Option<&str>,
) -> SandboxResult {
    check_count(items.len())?;
    let mut counts = Map::new();
    for (given, item) in items {
        if item.old.is_empty() {
            return Err(SandboxError::invalid(format!("{given}: old must not be empty")));
        }
        let path = absolute(given.clone())?;
        let count = in_file(call, &path, &given, &item).await?;
        counts.insert(given, json!({"replacedCount": count}));
    }
    if percent::value(query, "verbose").is_some_and(|text| text == "true") {
        return Ok(respond::json(StatusCode::OK, &Value::Object(counts)));
    }
    Ok(respond::empty(StatusCode::OK))
}

/// Replaces text in one file, and returns how often. A file that something else changes meanwhile is read again.
async fn in_file(
    call: &ExecdCall,
    path: &str,
    given: &str,
    item: &ReplaceItem,
) -> Result<usize, SandboxError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let read = download::open(call, path, ReadRange::Whole).await?;
        let replaces = read.headers().get(ETAG).cloned();
        let content = respond::read(read.into_body(), limits::REPLACE_MAX_BYTES).await?;
        let content = std::str::from_utf8(&content);
        let content = content.map_err(|_| SandboxError::invalid(format!("{given} is not UTF-8")))?;
        let count = content.matches(&item.old).count();
        if count == 0 {
            return Ok(0);
        }
        let options = WriteOptions { mode: None, replaces };
        let new = Body::from(content.replace(&item.old, &item.new));
        match upload::write(call, path, options, new).await {
            Ok(()) => return Ok(count),
            Err(error) if error.status == StatusCode::PRECONDITION_FAILED && tries < TRIES_MAX => {}
            Err(error) => return Err(error),
        }
    }
}
