//! Permissions that an agent asks for, as a person reads and answers them. Pure.

use super::tool::telling;
use crate::tame::one_line;
use protocol::{Decision, Permission, PermissionAnswer, PermissionState};

/// Characters of what is asked for: more than of a call, since somebody decides by them.
const ABOUT_CHARS: usize = 300;
const ALWAYS: &str = "allow_always";

/// What it is about: the title, and what is given to the tool where that says more.
pub fn about(permission: &Permission) -> String {
    let tool = &permission.about;
    let title = tool.title.clone().or_else(|| tool.tool.clone()).unwrap_or_else(|| "something".to_owned());
    let mut detail = tool.input.as_ref().map(telling).unwrap_or_default();
    if detail.is_empty() {
        detail = tool.paths.join(" ");
    }
    let says_more = !detail.is_empty() && !title.contains(&detail);
    one_line(&if says_more { format!("{title}: {detail}") } else { title }, ABOUT_CHARS)
}

/// What became of it; nothing while somebody is asked.
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
    Some(format!("{word}{by}: {}", about(permission)))
}

/// What a person typed; none where that is no answer.
pub fn typed(line: &str, permission: &Permission) -> Option<PermissionAnswer> {
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

/// What can be typed.
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
            (json!({}), "something"),
        ];
        for (tool, expected) in table {
            let mut tool = tool;
            tool["id"] = "1".into();
            tool["status"] = "pending".into();
            assert_eq!(about(&asked(&json!({ "about": tool }))).trim_end(), expected);
        }
    }

    #[test]
    fn letters_are_answers_and_always_only_where_it_is_offered() {
        let once = asked(&json!({}));
        let options = json!([{ "id": "always", "name": "Always", "kind": "allow_always" }]);
        let more = asked(&json!({ "options": options }));
        let answer = |line: &str, permission: &Permission| {
            typed(line, permission).map(|answer| (answer.decision, answer.option))
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
