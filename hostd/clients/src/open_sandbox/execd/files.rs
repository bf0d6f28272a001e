//! Verbs on single paths: look, delete, move, permissions.

use super::{
    super::{SandboxResult, error::SandboxError, limits},
    ExecdCall, as_another_user,
    file_info::{self, FORMAT},
    place::absolute,
    script,
};
use crate::{percent, respond};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Map;
use std::collections::BTreeMap;

const INFO: &str = r#"format=$1; shift
for path; do [ -e "$path" ] || [ -L "$path" ] || { printf %s "$path"; exit 44; }; done
exec stat -c "$format" -- "$@""#;
const REMOVE: &str = r#"for path; do
  [ -e "$path" ] || [ -L "$path" ] || { printf %s "$path"; exit 44; }
  [ -L "$path" ] || [ ! -d "$path" ] || { printf %s "$path"; exit 45; }
  rm -f -- "$path" || exit
done"#;
const MOVE: &str = r#"while [ $# -gt 0 ]; do
  [ -e "$1" ] || [ -L "$1" ] || { printf %s "$1"; exit 44; }
  mkdir -p -- "$(dirname -- "$2")" && mv -fT -- "$1" "$2" || exit
  shift 2
done"#;
const CHANGE_MODE: &str = r#"while [ $# -gt 0 ]; do
  [ -e "$2" ] || { printf %s "$2"; exit 44; }
  chmod -- "$1" "$2" || exit
  shift 2
done"#;

/// Permissions of a path. The owner is the sandbox's user, whom a request may name.
#[derive(Debug, Clone, Deserialize)]
pub struct Permission {
    #[serde(default)]
    mode: Option<u32>,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    group: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct RenameItem {
    src: String,
    dest: String,
}

impl Permission {
    /// Returns the mode in octal, where one is given.
    pub fn mode(&self) -> Result<Option<String>, SandboxError> {
        let ours = |name: &String| ["", "sandbox", "1000"].contains(&name.as_str());
        if ![&self.owner, &self.group].into_iter().flatten().all(ours) {
            return Err(as_another_user());
        }
        let invalid = || SandboxError::invalid("mode must have octal digits, as in 644, without set-id bits");
        self.mode.map(|mode| file_info::octal(mode).ok_or_else(invalid)).transpose()
    }
}

pub async fn info(call: &ExecdCall, query: Option<&str>) -> SandboxResult {
    let asked = named(query)?;
    let paths = absolutes(asked.clone())?;
    let arguments = [FORMAT.to_owned()].into_iter().chain(paths.clone()).collect();
    let found = file_info::parse(&script::run(call, INFO, arguments).await?);
    let mut views = Map::new();
    // By the path as it was asked for.
    for (asked, path) in asked.into_iter().zip(paths) {
        let info = found.iter().find(|info| info.path == path).ok_or_else(|| script::not_found(&path))?;
        views.insert(asked, info.view());
    }
    Ok(respond::json(StatusCode::OK, &views))
}

pub async fn remove(call: &ExecdCall, query: Option<&str>) -> SandboxResult {
    script::run(call, REMOVE, absolutes(named(query)?)?).await?;
    Ok(respond::empty(StatusCode::OK))
}

pub async fn rename(call: &ExecdCall, items: Vec<RenameItem>) -> SandboxResult {
    let pairs = items.into_iter().flat_map(|item| [item.src, item.dest]).collect();
    script::run(call, MOVE, absolutes(pairs)?).await?;
    Ok(respond::empty(StatusCode::OK))
}

pub async fn permissions(call: &ExecdCall, wanted: BTreeMap<String, Permission>) -> SandboxResult {
    check_count(wanted.len())?;
    let mut arguments = Vec::new();
    for (path, permission) in wanted {
        if let Some(mode) = permission.mode()? {
            arguments.extend([mode, absolute(path)?]);
        }
    }
    script::run(call, CHANGE_MODE, arguments).await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Returns the paths that a query names.
pub fn named(query: Option<&str>) -> Result<Vec<String>, SandboxError> {
    let paths = percent::values(query, "path");
    let paths: Option<Vec<String>> = paths.map(|path| String::from_utf8(path?).ok()).collect();
    let paths = paths.filter(|paths| !paths.is_empty());
    paths.ok_or_else(|| SandboxError::invalid("give path, percent-encoded UTF-8"))
}

pub fn absolutes(paths: Vec<String>) -> Result<Vec<String>, SandboxError> {
    check_count(paths.len())?;
    paths.into_iter().map(absolute).collect()
}

pub fn check_count(paths: usize) -> Result<(), SandboxError> {
    if paths <= limits::PATHS_MAX {
        return Ok(());
    }
    let message = format!("at most {} paths in one request", limits::PATHS_MAX);
    Err(SandboxError::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_MANY", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_the_user_of_the_sandbox_owns_files() {
        let mode = |value: Value| serde_json::from_value::<Permission>(value).expect("parsed").mode();
        assert_eq!(mode(json!({"mode": 644})).expect("good").as_deref(), Some("0644"));
        assert_eq!(mode(json!({"owner": "sandbox", "group": null})).expect("good"), None);
        for (bad, status) in [
            (json!({"mode": 755, "owner": "root"}), 403),
            (json!({"mode": 755, "group": "0"}), 403),
            (json!({"mode": 4755}), 400),
        ] {
            let text = bad.to_string();
            assert_eq!(mode(bad).expect_err(&text).status.as_u16(), status, "{text}");
        }
    }
}
