//! Directories: list, search, make, delete.

use super::{
    super::{SandboxResult, error::SandboxError, limits},
    ExecdCall,
    file_info::{self, FORMAT},
    files::{Permission, absolutes, check_count, named},
    place::absolute,
    script,
};
use crate::{percent, respond};
use hyper::StatusCode;
use serde_json::Value;
use std::collections::BTreeMap;

const LIST: &str = r#"[ -e "$2" ] || { printf %s "$2"; exit 44; }
[ -d "$2" ] || { printf %s "$2"; exit 45; }
find "${2%/}/" -mindepth 1 -maxdepth "$3" -exec stat -c "$1" {} + 2>/dev/null || :"#;
const SEARCH: &str = r#"[ -d "$2" ] || { printf %s "$2"; exit 44; }
find "${2%/}/" -mindepth 1 -name "$3" -exec stat -c "$1" {} + 2>/dev/null || :"#;
const MAKE: &str = r#"while [ $# -gt 0 ]; do
  mkdir -p -- "$2" || exit
  [ -z "$1" ] || chmod -- "$1" "$2" || exit
  shift 2
done"#;
const REMOVE: &str = r#"for path; do
  [ ! -e "$path" ] || [ -d "$path" ] || { printf %s "$path"; exit 45; }
  rm -rf -- "$path" || exit
done"#;

pub async fn list(call: &ExecdCall, query: Option<&str>) -> SandboxResult {
    let path = absolute(named(query)?.swap_remove(0))?;
    let depth = match percent::value(query, "depth") {
        Some(text) => text.parse().map_err(|_| SandboxError::invalid("depth must be a number"))?,
        None => 1,
    };
    let depth = u32::min(depth, limits::LIST_DEPTH_MAX).to_string();
    views(call, LIST, vec![FORMAT.to_owned(), path, depth]).await
}

/// Finds entries whose name matches a glob.
pub async fn search(call: &ExecdCall, query: Option<&str>) -> SandboxResult {
    let path = absolute(named(query)?.swap_remove(0))?;
    let pattern = percent::value(query, "pattern").filter(|pattern| !pattern.is_empty());
    let pattern = pattern.unwrap_or_else(|| "*".to_owned());
    if pattern.contains('\0') {
        return Err(SandboxError::invalid("a pattern has no zero byte"));
    }
    views(call, SEARCH, vec![FORMAT.to_owned(), path, pattern]).await
}

async fn views(call: &ExecdCall, list: &str, arguments: Vec<String>) -> SandboxResult {
    let mut found = file_info::parse(&script::run(call, list, arguments).await?);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let views: Vec<Value> = found.iter().map(file_info::FileInfo::view).collect();
    Ok(respond::json(StatusCode::OK, &views))
}

pub async fn make(call: &ExecdCall, wanted: BTreeMap<String, Permission>) -> SandboxResult {
    check_count(wanted.len())?;
    let mut arguments = Vec::new();
    for (path, permission) in wanted {
        arguments.extend([permission.mode()?.unwrap_or_default(), absolute(path)?]);
    }
    script::run(call, MAKE, arguments).await?;
    Ok(respond::empty(StatusCode::OK))
}

pub async fn remove(call: &ExecdCall, query: Option<&str>) -> SandboxResult {
    script::run(call, REMOVE, absolutes(named(query)?)?).await?;
    Ok(respond::empty(StatusCode::OK))
}
