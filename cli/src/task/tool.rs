//! Calls of tools: one line each, when the outcome is known. Pure.

use super::fact::fields;
use crate::limits;
use serde_json::Value;
use std::collections::BTreeMap;

/// Names of the fields that say most about a call, best first.
const TELLING: [&str; 8] =
    ["title", "command", "path", "file_path", "url", "query", "pattern", "description"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Call {
    name: String,
    detail: String,
}

/// Calls that have begun and have no outcome yet.
#[derive(Debug, Default)]
pub struct Calls {
    open: BTreeMap<String, Call>,
}

/// A call with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    pub name: String,
    pub detail: String,
    pub status: String,
    pub failed: bool,
}

impl Calls {
    /// Takes what is told about a call; gives it back when it is over.
    pub fn take(&mut self, id: &str, name: &str, status: &str, detail: Option<&Value>) -> Option<Called> {
        let mut call = self.open.remove(id).unwrap_or_default();
        if !name.is_empty() {
            name.clone_into(&mut call.name);
        }
        let told = detail.map(telling).unwrap_or_default();
        if !told.is_empty() && call.detail.is_empty() {
            call.detail = told;
        }
        if is_open(status) && self.open.len() < limits::OPEN_TOOLS_MAX {
            self.open.insert(id.to_owned(), call);
            return None;
        }
        let failed = matches!(status, "failed" | "error" | "cancelled" | "rejected" | "denied");
        Some(Called { name: call.name, detail: call.detail, status: status.to_owned(), failed })
    }

    /// Those that never came to an end.
    pub fn unfinished(&mut self) -> Vec<Called> {
        let calls = std::mem::take(&mut self.open).into_values();
        let unfinished = |call: Call| Called {
            name: call.name,
            detail: call.detail,
            status: "unfinished".to_owned(),
            failed: true,
        };
        calls.map(unfinished).collect()
    }
}

fn is_open(status: &str) -> bool {
    matches!(status, "pending" | "in_progress" | "running" | "started" | "queued")
}

/// What kind of call it is and the one thing that says most about it.
fn telling(detail: &Value) -> String {
    let map = match detail {
        Value::Object(map) => map,
        Value::String(text) => return text.clone(),
        other => return other.to_string(),
    };
    let nested = ["input", "rawInput", "raw_input"].iter().filter_map(|name| map.get(*name)?.as_object());
    let found = std::iter::once(map)
        .chain(nested)
        .find_map(|map| TELLING.iter().find_map(|name| map.get(*name)?.as_str()));
    let kind = map.get("kind").and_then(Value::as_str);
    match (kind, found) {
        (Some(kind), Some(found)) => format!("{kind}: {found}"),
        (None, Some(found)) => found.to_owned(),
        (_, None) => fields(map),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_detail_is_told_by_what_says_most() {
        let table = [
            (json!("ls -la"), "ls -la"),
            (json!({ "command": "ls", "timeout": 3 }), "ls"),
            (json!({ "kind": "edit", "path": "a.rs" }), "edit: a.rs"),
            (json!({ "kind": "execute", "rawInput": { "command": "make" } }), "execute: make"),
            (json!({ "count": 3, "why": null }), "count=3"),
            (json!([1, 2]), "[1,2]"),
        ];
        for (detail, expected) in table {
            assert_eq!(telling(&detail), expected, "{detail}");
        }
    }

    #[test]
    fn a_call_is_told_once_with_its_outcome() {
        let mut calls = Calls::default();
        let detail = json!({ "command": "make" });
        assert_eq!(calls.take("1", "bash", "pending", Some(&detail)), None);
        assert_eq!(calls.take("2", "read", "in_progress", None), None);
        let called = calls.take("1", "", "completed", Some(&json!({ "output": "…" }))).expect("it is over");
        assert_eq!((called.name.as_str(), called.detail.as_str(), called.failed), ("bash", "make", false));
        assert!(calls.take("3", "bash", "failed", None).expect("it is over").failed);
        let left = calls.unfinished();
        assert_eq!((left.len(), left[0].name.as_str(), left[0].status.as_str()), (1, "read", "unfinished"));
        assert!(calls.unfinished().is_empty());
    }

    #[test]
    fn too_many_open_calls_are_told_as_they_are() {
        let mut calls = Calls::default();
        for n in 0..limits::OPEN_TOOLS_MAX {
            assert_eq!(calls.take(&n.to_string(), "bash", "pending", None), None);
        }
        assert_eq!(calls.take("more", "bash", "pending", None).expect("it is told").status, "pending");
    }
}
