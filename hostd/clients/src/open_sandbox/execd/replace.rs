//! Replaces text in files: read here, and written back with the same permissions.

use super::{
    super::{SandboxResult, error::SandboxError, limits},
    ExecdCall,
    download::{self, ReadRange},
    files::check_count,
    place::absolute,
    upload,
};
use crate::{percent, respond};
use axum::body::Body;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

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
        let content = download::open(call, &path, ReadRange::Whole).await?.into_body();
        let content = respond::read(content, limits::REPLACE_MAX_BYTES).await?;
        let content = std::str::from_utf8(&content);
        let content = content.map_err(|_| SandboxError::invalid(format!("{given} is not UTF-8")))?;
        let count = content.matches(&item.old).count();
        if count > 0 {
            upload::write(call, &path, None, Body::from(content.replace(&item.old, &item.new))).await?;
        }
        counts.insert(given, json!({"replacedCount": count}));
    }
    if percent::value(query, "verbose").is_some_and(|text| text == "true") {
        return Ok(respond::json(StatusCode::OK, &Value::Object(counts)));
    }
    Ok(respond::empty(StatusCode::OK))
}
