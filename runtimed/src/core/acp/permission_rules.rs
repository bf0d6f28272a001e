//! Matches permission rules against a request and picks one of the options the agent offers.

use super::limits::{ID_MAX_BYTES, PERMISSION_OPTIONS_MAX, SUBJECT_MAX_BYTES, SUBJECTS_MAX, TITLE_MAX_BYTES};
use crate::core::json_fields::{cut, items, text};
use protocol::{Decision, PermissionOption, PermissionRule, Permissions};
use serde_json::Value;

/// Fields of a tool's input that say what the tool will do. Others, such as a description, are the agent's
/// own text and must not make a rule match.
const SUBJECT_FIELDS: [&str; 14] = [
    "command",
    "cmd",
    "script",
    "path",
    "paths",
    "file_path",
    "filePath",
    "filepath",
    "absolute_path",
    "notebook_path",
    "url",
    "uri",
    "dir_path",
    "patch",
];

/// Commands, paths and addresses that a tool call is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subjects {
    all: Vec<String>,
    /// Some subjects were left out or too long.
    cut: bool,
}

impl Subjects {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.cut
    }

    pub fn add(&mut self, subject: &str) {
        if subject.is_empty() || self.all.iter().any(|known| known == subject) {
            return;
        }
        if self.all.len() >= SUBJECTS_MAX || subject.len() > SUBJECT_MAX_BYTES {
            self.cut = true;
        } else {
            self.all.push(subject.to_owned());
        }
    }

    /// Adds the subjects found in the input of a tool.
    pub fn add_input(&mut self, input: &Value) {
        for name in SUBJECT_FIELDS {
            match input.get(name) {
                Some(Value::String(subject)) => self.add(subject),
                // An argv array is one command; several paths are several subjects.
                Some(Value::Array(pieces)) if name != "paths" => {
                    let pieces: Vec<&str> = pieces.iter().filter_map(Value::as_str).collect();
                    self.add(&pieces.join(" "));
                }
                Some(Value::Array(paths)) => {
                    paths.iter().filter_map(Value::as_str).for_each(|path| self.add(path));
                }
                Some(_) | None => {}
            }
        }
    }
}

/// The parts of a request that rules are matched against.
#[derive(Debug, Clone, Copy)]
pub struct RuleInput<'a> {
    pub kind: Option<&'a str>,
    pub title: Option<&'a str>,
    pub subjects: &'a Subjects,
}

/// Returns the decision of the first matching rule, or the default, and which of the two it was.
pub fn decide(permissions: &Permissions, input: RuleInput<'_>) -> (Decision, &'static str) {
    let rule = permissions.rules.iter().find(|rule| rule_matches(rule, input));
    rule.map_or((permissions.default, "default"), |rule| (rule.then, "rule"))
}

/// An allowing rule has to match every subject; an asking or denying one matches any subject, and also
/// subjects that are not known.
fn rule_matches(rule: &PermissionRule, input: RuleInput<'_>) -> bool {
    let unknown = input.kind.is_none() && rule.then != Decision::Allow;
    let tool = rule.tool.as_deref().is_none_or(|pattern| {
        unknown || input.kind.into_iter().chain(input.title).any(|name| glob(pattern, name))
    });
    tool && rule.about.as_deref().is_none_or(|pattern| {
        let mut all = input.subjects.all.iter();
        match rule.then {
            Decision::Allow => {
                !input.subjects.is_empty() && !input.subjects.cut && all.all(|subject| glob(pattern, subject))
            }
            Decision::Ask | Decision::Deny => input.subjects.cut || all.any(|subject| glob(pattern, subject)),
        }
    })
}

/// Whether `text` matches `pattern`, in which `*` stands for any characters. Takes time proportional to the
/// product of the two lengths.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, seen)) = star {
            star = Some((at, seen + 1));
            (p, t) = (at + 1, seen + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

pub fn options(request: &Value) -> Vec<PermissionOption> {
    let option = |option: &Value| {
        Some(PermissionOption {
            id: text(option, "optionId").filter(|id| id.len() <= ID_MAX_BYTES)?.to_owned(),
            name: cut(text(option, "name").unwrap_or_default(), TITLE_MAX_BYTES).to_owned(),
            kind: cut(text(option, "kind").unwrap_or_default(), ID_MAX_BYTES).to_owned(),
        })
    };
    items(request, "options").iter().filter_map(option).take(PERMISSION_OPTIONS_MAX).collect()
}

/// The decision that an option stands for, if its kind is known.
pub fn decision_of(option: &PermissionOption) -> Option<Decision> {
    match option.kind.as_str() {
        "allow_once" | "allow_always" => Some(Decision::Allow),
        "reject_once" | "reject_always" => Some(Decision::Deny),
        _ => None,
    }
}

/// Picks the option for a decision. "Once" comes before "always": later requests are then asked again and
/// matched against the rules.
pub fn choose(options: &[PermissionOption], allow: bool) -> Option<&PermissionOption> {
    let kinds = if allow { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn rule(tool: Option<&str>, about: Option<&str>, then: Decision) -> PermissionRule {
        PermissionRule { tool: tool.map(str::to_owned), about: about.map(str::to_owned), then }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        use Decision::{Allow, Ask, Deny};
        let rules = vec![
            rule(Some("fetch"), None, Deny),
            rule(Some("execute"), Some("rm *"), Deny),
            rule(Some("execute"), Some("git *"), Allow),
            rule(None, Some("*/.env"), Ask),
            rule(Some("Read*"), None, Allow),
        ];
        let permissions = Permissions { default: Ask, rules };
        for (kind, title, input, expected) in [
            ("fetch", "x", json!({"url": "http://x/"}), (Deny, "rule")),
            ("execute", "x", json!({"command": "rm -rf /"}), (Deny, "rule")),
            ("execute", "x", json!({"command": ["rm", "-rf", "/"]}), (Deny, "rule")),
            ("execute", "x", json!({"command": "git status"}), (Allow, "rule")),
            ("execute", "x", json!({"command": "git status", "path": "/x"}), (Ask, "default")),
            ("execute", "x", json!({"command": "make", "description": "git status"}), (Ask, "default")),
            ("execute", "x", json!({}), (Ask, "default")),
            ("edit", "x", json!({"paths": ["/a", "/b/.env"]}), (Ask, "rule")),
            ("read", "Read it", json!({"filePath": "/a"}), (Allow, "rule")),
        ] {
            let mut subjects = Subjects::default();
            subjects.add_input(&input);
            let asked = RuleInput { kind: Some(kind), title: Some(title), subjects: &subjects };
            assert_eq!(decide(&permissions, asked), expected, "{kind} {input}");
        }
    }

    #[test]
    fn a_rule_allows_nothing_of_which_not_all_is_known() {
        let permissions =
            Permissions { default: Decision::Deny, rules: vec![rule(None, Some("a*"), Decision::Allow)] };
        let mut subjects = Subjects::default();
        subjects.add_input(&json!({"command": "a".repeat(SUBJECT_MAX_BYTES + 1), "path": "a"}));
        let asked = RuleInput { kind: None, title: None, subjects: &subjects };
        assert_eq!(decide(&permissions, asked), (Decision::Deny, "default"));
    }

    #[test]
    fn a_rule_against_something_fits_what_is_not_known() {
        let long = json!({"command": format!("rm -rf /{}", "x".repeat(SUBJECT_MAX_BYTES))});
        let mut paths: Vec<String> = (0..SUBJECTS_MAX).map(|number| format!("/{number}")).collect();
        paths.push("/secret".to_owned());
        for then in [Decision::Ask, Decision::Deny] {
            let rules = vec![rule(None, Some("rm *"), then), rule(None, Some("/secret"), then)];
            let permissions = Permissions { default: Decision::Allow, rules };
            for (input, expected) in [
                (&long, (then, "rule")),
                (&json!({"paths": paths}), (then, "rule")),
                (&json!({"paths": paths[..SUBJECTS_MAX]}), (Decision::Allow, "default")),
            ] {
                let mut subjects = Subjects::default();
                subjects.add_input(input);
                let asked = RuleInput { kind: None, title: None, subjects: &subjects };
                assert_eq!(decide(&permissions, asked), expected);
            }
        }
    }

    #[test]
    fn a_rule_against_a_tool_fits_one_of_no_known_kind() {
        for (then, kind, expected) in [
            (Decision::Deny, None, true),
            (Decision::Ask, None, true),
            (Decision::Allow, None, false),
            (Decision::Deny, Some("read"), false),
            (Decision::Deny, Some("execute"), true),
        ] {
            let asked = RuleInput { kind, title: Some("A small job"), subjects: &Subjects::default() };
            assert_eq!(
                rule_matches(&rule(Some("execute"), None, then), asked),
                expected,
                "{then:?} {kind:?}"
            );
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("git *", "git status", true),
            ("git *", "git", false),
            ("*.rs", "a/b.rs", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXc", false),
            ("a**", "a", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_star_means_what_a_regular_expression_would(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            let regex = regex_lite::Regex::new(&format!("^{}$", pattern.replace('*', ".*"))).expect("a good one");
            prop_assert_eq!(glob(&pattern, &text), regex.is_match(&text));
        }
    }

    #[test]
    fn once_is_chosen_before_always() {
        let offered = json!({"options": [
            {"optionId": "a", "name": "Always", "kind": "allow_always"},
            {"optionId": "o", "name": "Once", "kind": "allow_once"},
            {"optionId": "n", "name": "Never", "kind": "reject_always"},
            {"name": "without an id"},
        ]});
        let options = options(&offered);
        assert_eq!(options.len(), 3);
        assert_eq!(choose(&options, true).map(|option| option.id.as_str()), Some("o"));
        assert_eq!(choose(&options, false).map(|option| option.id.as_str()), Some("n"));
        assert_eq!(choose(&options[..2], false), None);
    }
}
