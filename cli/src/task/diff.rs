//! Unified diff of a change that an agent asks permission for. Pure.

use super::style::Style;
use crate::{output::Colour, sanitize::LineSanitizer};
use protocol::{Diff, Permission};
use similar::{ChangeTag, TextDiff};

/// Lines of all diffs of one permission, and characters of a line.
const LINES_MAX: usize = 60;
const LINE_CHARS: usize = 200;
/// Context lines around a change.
const CONTEXT_LINES: usize = 3;
/// Input fields of tools in which agents put a whole patch.
const PATCHES: [&str; 2] = ["diff", "patch"];
/// The app directory of sandboxes.
const APP_DIR: &str = "/home/sandbox/workspace/app/";

/// Returns a path relative to the app directory where it is below it.
pub fn short_path(path: &str) -> &str {
    path.strip_prefix(APP_DIR).filter(|rest| !rest.is_empty()).unwrap_or(path)
}

/// Returns whether the permission is about a change of files.
pub fn has_diff(permission: &Permission) -> bool {
    !permission.about.diffs.is_empty() || patch(permission).is_some()
}

/// Formats the change as indented, sanitized lines, at most [`LINES_MAX`]; empty where there is no change.
pub fn lines(permission: &Permission, style: Style) -> Vec<String> {
    let about = &permission.about;
    let mut all: Vec<(Option<Colour>, String)> = match (about.diffs.as_slice(), patch(permission)) {
        ([], Some(patch)) => patch.lines().filter(|line| !is_heading(line)).map(patched).collect(),
        ([], None) => return Vec::new(),
        ([only], _) => unified(only),
        (several, _) => several.iter().flat_map(headed).collect(),
    };
    let more = all.len().saturating_sub(LINES_MAX);
    all.truncate(LINES_MAX);
    let mut lines: Vec<String> = all.iter().map(|(colour, line)| shown(*colour, line, style)).collect();
    if more > 0 {
        lines.push(style.dim(&format!("    … {more} more lines")));
    }
    if about.truncated {
        lines.push(style.dim("    … the change is truncated"));
    }
    lines
}

fn patch(permission: &Permission) -> Option<&str> {
    let input = permission.about.input.as_ref()?;
    PATCHES.iter().find_map(|name| input.get(name)?.as_str()).filter(|patch| !patch.trim().is_empty())
}

/// Returns whether a line of a patch only names its file, which the prompt does already.
fn is_heading(line: &str) -> bool {
    ["Index: ", "=====", "diff --git ", "index ", "--- ", "+++ "].iter().any(|start| line.starts_with(start))
}

fn patched(line: &str) -> (Option<Colour>, String) {
    let colour = match line.as_bytes().first() {
        Some(b'+') => Some(Colour::Green),
        Some(b'-') => Some(Colour::Red),
        Some(b'@') => Some(Colour::Dim),
        Some(_) | None => None,
    };
    (colour, line.to_owned())
}

fn headed(diff: &Diff) -> Vec<(Option<Colour>, String)> {
    let mut lines = vec![(Some(Colour::Bold), short_path(&diff.path).to_owned())];
    lines.extend(unified(diff));
    lines
}

fn unified(diff: &Diff) -> Vec<(Option<Colour>, String)> {
    let text = TextDiff::from_lines(diff.old.as_deref().unwrap_or_default(), &diff.new);
    let mut lines = Vec::new();
    for hunk in text.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        lines.push((Some(Colour::Dim), hunk.header().to_string()));
        for change in hunk.iter_changes() {
            let (sign, colour) = match change.tag() {
                ChangeTag::Delete => ('-', Some(Colour::Red)),
                ChangeTag::Insert => ('+', Some(Colour::Green)),
                ChangeTag::Equal => (' ', None),
            };
            lines.push((colour, format!("{sign}{}", change.value().trim_end_matches(['\r', '\n']))));
        }
    }
    lines
}

/// Sanitizes a line of untrusted text to exactly one line.
fn shown(colour: Option<Colour>, line: &str, style: Style) -> String {
    let tame = LineSanitizer::default().push(line).replace(['\n', '\r'], " ");
    let mut short: String = tame.chars().take(LINE_CHARS).collect();
    if short.len() < tame.len() {
        short.push('…');
    }
    let short = short.trim_end();
    format!("    {}", colour.map_or_else(|| short.to_owned(), |colour| style.paint(colour, short)))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use serde_json::json;

    const PLAIN: Style = Style { output: Output { json: false, colour: false }, terminal: true };

    fn asked(fields: &serde_json::Value) -> Permission {
        let mut about = json!({ "id": "1", "status": "pending" });
        about.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        serde_json::from_value(json!({ "id": "p1", "state": "asked", "about": about })).expect("a permission")
    }

    fn diff(path: &str, old: &str, new: &str) -> serde_json::Value {
        json!({ "path": path, "old": old, "new": new })
    }

    #[test]
    fn a_change_is_a_unified_diff() {
        let old = "fn main() {\n    one();\n    two();\n    three();\n    four();\n}\n";
        let new = old.replace("    two();\n", "    deux();\n    more();\n");
        let one = asked(&json!({ "diffs": [diff("src/main.rs", old, &new)] }));
        insta::assert_snapshot!(lines(&one, PLAIN).join("\n"), @r"
            @@ -1,6 +1,7 @@
             fn main() {
                 one();
            -    two();
            +    deux();
            +    more();
                 three();
                 four();
             }
        ");
    }

    #[test]
    fn several_files_have_headings_and_a_new_one_is_all_plus() {
        let new = json!({ "path": "/home/sandbox/workspace/app/new.txt", "new": "a\nb" });
        let two = asked(&json!({ "diffs": [new, diff("/etc/x", "1\n", "2\n")] }));
        insta::assert_snapshot!(lines(&two, PLAIN).join("\n"), @r"
            new.txt
            @@ -0,0 +1,2 @@
            +a
            +b
            /etc/x
            @@ -1 +1 @@
            -1
            +2
        ");
    }

    #[test]
    fn a_patch_in_the_input_of_a_tool_is_shown_where_there_is_nothing_better() {
        let patch = "Index: a\n=====\n--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n";
        let one = asked(&json!({ "input": { "filepath": "a", "diff": patch } }));
        assert!(has_diff(&one));
        assert_eq!(lines(&one, PLAIN), ["    @@ -1 +1 @@", "    -old", "    +new"]);
        assert!(!has_diff(&asked(&json!({ "input": { "command": "ls" } }))));
    }

    #[test]
    fn it_is_bounded_and_sanitized() {
        let long: String = (0..1_000).map(|n| format!("{n}\n")).collect();
        let evil = "\u{1b}[2J\u{9b}1m\u{8}\rfake\u{202e}";
        let wide = "é".repeat(1_000);
        for (fields, last) in [
            (json!({ "diffs": [{ "path": "a", "new": long }] }), Some("    … 941 more lines")),
            (json!({ "diffs": [{ "path": evil, "new": evil }, { "path": evil, "new": wide }] }), None),
            (json!({ "input": { "patch": format!("+{evil}\n-{wide}") } }), None),
            (
                json!({ "diffs": [{ "path": "a", "new": "x" }], "truncated": true }),
                Some("    … the change is truncated"),
            ),
        ] {
            let lines = lines(&asked(&fields), PLAIN);
            assert!(lines.len() <= LINES_MAX + 1, "{lines:?}");
            for line in &lines {
                assert!(!line.chars().any(char::is_control) && !line.contains('\u{202e}'), "{line:?}");
                assert!(line.chars().count() <= LINE_CHARS + 5, "{line}");
            }
            assert!(last.is_none_or(|last| lines.last().is_some_and(|line| line == last)), "{lines:?}");
        }
    }
}
