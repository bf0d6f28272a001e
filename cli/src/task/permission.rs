//! Formats permissions and parses typed answers. Pure.

use super::{
    diff::{has_diff, short_path},
    tool::key_detail,
};
use crate::sanitize::one_line;
use protocol::{Decision, Permission, PermissionAnswer, PermissionState, Tool};

/// Characters of the description: more than of a tool call, because the user decides by it.
const ABOUT_CHARS: usize = 300;
const ALWAYS: &str = "allow_always";

/// Describes the action: the title, with the input of the tool where that adds detail. A change of files is described by
/// its paths, because the diff is shown below.
pub fn describe(permission: &Permission) -> String {
    let tool = &permission.about;
    let title = tool.title.as_deref().or(tool.tool.as_deref()).unwrap_or("something");
    let changed = if has_diff(permission) { changed_paths(tool) } else { Vec::new() };
    let text = match changed.first() {
        Some(first) => change_of(title, tool.tool.as_deref(), first, &changed.join(" ")),
        None => {
            let given = tool.input.as_ref().map(key_detail).filter(|given| !given.is_empty());
            let detail = given.unwrap_or_else(|| tool.paths.join(" "));
            let adds_detail = !detail.is_empty() && !title.contains(&detail);
            if adds_detail { format!("{title}: {detail}") } else { title.to_owned() }
        }
    };
    one_line(&text, ABOUT_CHARS)
}

/// Describes a change, as in `edit src/main.rs`. Some agents use the path as the title, others include it.
fn change_of(title: &str, kind: Option<&str>, first: &str, paths: &str) -> String {
    if !title.contains(first) {
        format!("{title} {paths}")
    } else if title.ends_with(first) && !title.contains(' ') {
        format!("{} {paths}", kind.unwrap_or("edit"))
    } else {
        title.to_owned()
    }
}

/// Returns the changed files, relative to the app directory where possible.
fn changed_paths(tool: &Tool) -> Vec<&str> {
    let given = |name: &&str| tool.input.as_ref()?.get(*name)?.as_str();
    let mut paths: Vec<&str> = tool.diffs.iter().map(|diff| diff.path.as_str()).collect();
    if paths.is_empty() {
        paths.extend(tool.paths.iter().map(String::as_str));
    }
    if paths.is_empty() {
        paths.extend(["filepath", "filePath", "file_path", "path"].iter().find_map(given));
    }
    let mut short: Vec<&str> = paths.into_iter().map(short_path).collect();
    short.dedup();
    short
}

/// Formats the decision; `None` while it is open.
pub fn outcome(permission: &Permission) -> Option<String> {
    let word = match permission.state {
        PermissionState::Asked => return None,
        PermissionState::Allowed => "allowed",
        PermissionState::Denied => "denied",
        PermissionState::Withdrawn => "no longer asked for",
    };
    let by = match permission.by.as_deref() {
        Some("rule") => " by a rule",
        Some("caller") => " by you",
        _ => "",
    };
    Some(format!("{word}{by}: {}", describe(permission)))
}

/// Parses a typed answer; `None` where it is invalid.
pub fn parse_answer(line: &str, permission: &Permission) -> Option<PermissionAnswer> {
    let allow = |option| PermissionAnswer { decision: Decision::Allow, option };
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(allow(None)),
        "n" | "no" => Some(PermissionAnswer { decision: Decision::Deny, option: None }),
        "a" | "always" => always(permission).map(|option| allow(Some(option))),
        _ => None,
    }
}

fn always(permission: &Permission) -> Option<String> {
    permission.options.iter().find(|option| option.kind == ALWAYS).map(|option| option.id.clone())
}

/// Returns the valid answers.
pub fn choices(permission: &Permission) -> &'static str {
    if always(permission).is_some() { "[y]es, [n]o, [a]lways" } else { "[y]es, [n]o" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(fields: &serde_json::Value) -> Permission {
        let mut value = json!({ "id": "p1", "state": "asked", "about": { "id": "1", "status": "pending" } });
        for (name, field) in fields.as_object().expect("an object") {
            value[name] = field.clone();
        }
        serde_json::from_value(value).expect("a permission")
    }

    #[test]
    fn what_is_asked_for_is_told_whole() {
        let table = [
            (json!({ "title": "npm install", "input": { "command": "npm install" } }), "npm install"),
            (json!({ "title": "bash", "input": { "command": "rm -rf\n/ \u{1b}[2J" } }), "bash: rm -rf /"),
            (json!({ "tool": "edit", "paths": ["a.rs", "b.rs"] }), "edit: a.rs b.rs"),
            (
                json!({ "title": "/home/sandbox/workspace/app/a.rs", "tool": "edit",
                    "input": { "filepath": "/home/sandbox/workspace/app/a.rs", "diff": "-x\n+y" } }),
                "edit a.rs",
            ),
            (
                json!({ "title": "Edit", "input": { "old": "x" },
                    "diffs": [{ "path": "/etc/a", "new": "" }, { "path": "b", "new": "" }] }),
                "Edit /etc/a b",
            ),
            (json!({ "title": "Write a.rs", "diffs": [{ "path": "a.rs", "new": "" }] }), "Write a.rs"),
            (json!({}), "something"),
        ];
        for (tool, expected) in table {
            let mut tool = tool;
            tool["id"] = "1".into();
            tool["status"] = "pending".into();
            assert_eq!(describe(&asked(&json!({ "about": tool }))).trim_end(), expected);
        }
    }

    #[test]
    fn letters_are_answers_and_always_only_where_it_is_offered() {
        let once = asked(&json!({}));
        let options = json!([{ "id": "always", "name": "Always", "kind": "allow_always" }]);
        let more = asked(&json!({ "options": options }));
        let answer = |line: &str, permission: &Permission| {
            parse_answer(line, permission).map(|answer| (answer.decision, answer.option))
        };
        assert_eq!(answer("y\n", &once), Some((Decision::Allow, None)));
        assert_eq!(answer(" NO ", &once), Some((Decision::Deny, None)));
        assert_eq!(answer("a", &once), None);
        assert_eq!(answer("a", &more), Some((Decision::Allow, Some("always".to_owned()))));
        for nothing in ["", "\n", "yy", "allow"] {
            assert_eq!(answer(nothing, &more), None, "{nothing:?}");
        }
        assert_eq!((choices(&once), choices(&more)), ("[y]es, [n]o", "[y]es, [n]o, [a]lways"));
    }
}
