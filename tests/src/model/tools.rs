//! An intent as a call of whichever tool the request offers for it: each agent names its tools and their
//! parameters differently.

use super::completion::Input;
use super::conversation::{Offer, ParameterShape};
use super::script::Intent;
use serde_json::{Map, Value, json};

const WRITE: &[&str] = &["write", "write_file", "create_file"];
const EDIT: &[&str] = &["edit", "replace", "edit_file", "str_replace"];
const READ: &[&str] = &["read", "read_file"];
const SHELL: &[&str] = &["bash", "shell", "run_shell_command", "exec_command", "shell_command"];
const EDITOR: &[&str] = &["text_editor"];
const PATCH: &[&str] = &["apply_patch"];

/// The tool's name and what it is given; a shell does what there is no other tool for.
pub fn call(intent: &Intent, offers: &[Offer]) -> Option<(String, Input)> {
    match intent {
        Intent::WriteFile { path, content } => {
            let given = [(PATH, path.as_str()), (CONTENT, content)];
            named(offers, WRITE)
                .map(|offer| fill(offer, &given))
                .or_else(|| editor(offers, "write", &given))
                .or_else(|| patch(offers, &added(path, content)))
                .or_else(|| shell(offers, &heredoc(path, content)))
        }
        Intent::EditFile { path, old, new } => {
            let given = [(PATH, path.as_str()), (OLD, old), (NEW, new)];
            named(offers, EDIT)
                .map(|offer| fill(offer, &given))
                .or_else(|| editor(offers, "str_replace", &given))
                .or_else(|| patch(offers, &updated(path, old, new)))
                .or_else(|| shell(offers, &substitution(path, old, new)))
        }
        Intent::ReadFile { path } => {
            let given = [(PATH, path.as_str())];
            named(offers, READ)
                .map(|offer| fill(offer, &given))
                .or_else(|| editor(offers, "view", &given))
                .or_else(|| shell(offers, &format!("cat {}", quoted(path))))
        }
        Intent::Shell { command } => shell(offers, command),
    }
}

fn shell(offers: &[Offer], command: &str) -> Option<(String, Input)> {
    named(offers, SHELL).map(|offer| fill(offer, &[(COMMAND, command)]))
}

/// A single tool for all file operations; a parameter selects one.
fn editor(offers: &[Offer], verb: &str, given: &[(Role, &str)]) -> Option<(String, Input)> {
    let offer = named(offers, EDITOR)?;
    let all: Vec<_> = given.iter().copied().chain([(COMMAND, verb)]).collect();
    Some(fill(offer, &all))
}

fn patch(offers: &[Offer], patch: &str) -> Option<(String, Input)> {
    let offer = named(offers, PATCH)?;
    let input = match offer.takes {
        ParameterShape::Text => Input::Text(patch.to_owned()),
        ParameterShape::Object(_) => Input::Object(json!({"input": patch})),
    };
    Some((offer.name.clone(), input))
}

/// The first offer by any of these names, whatever stands before `__` (the extension it belongs to).
fn named<'a>(offers: &'a [Offer], names: &[&str]) -> Option<&'a Offer> {
    names.iter().find_map(|name| {
        offers.iter().find(|offer| {
            let own = offer.name.rsplit("__").next().unwrap_or_default();
            own.eq_ignore_ascii_case(name)
        })
    })
}

/// The role of a parameter, as the list of its known names.
type Role = &'static [&'static str];
const PATH: Role = &["filePath", "file_path", "path", "absolute_path", "file"];
const CONTENT: Role = &["content", "file_text", "contents", "text"];
const OLD: Role = &["oldString", "old_string", "old_str", "before"];
const NEW: Role = &["newString", "new_string", "new_str", "after"];
const COMMAND: Role = &["command", "cmd"];

/// Every parameter that something is given for, and those that the tool insists on.
fn fill(offer: &Offer, given: &[(Role, &str)]) -> (String, Input) {
    let ParameterShape::Object(schema) = &offer.takes else {
        let text = given.first().map(|(_, text)| (*text).to_owned()).unwrap_or_default();
        return (offer.name.clone(), Input::Text(text));
    };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut filled = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = given.iter().find(|(role, _)| role.contains(&name.as_str())).map(|(_, value)| *value);
        match (value, type_of(property)) {
            (Some(value), "array") => filled.insert(name.clone(), json!(["bash", "-lc", value])),
            (Some(value), _) => filled.insert(name.clone(), json!(value)),
            (None, kind) if required.contains(&name.as_str()) => {
                filled.insert(name.clone(), default_of(kind))
            }
            (None, _) => None,
        };
    }
    (offer.name.clone(), Input::Object(Value::Object(filled)))
}

/// Schemas for Gemini write types in capitals.
fn type_of(property: &Value) -> &str {
    match property["type"].as_str().unwrap_or("string") {
        "ARRAY" | "array" => "array",
        "BOOLEAN" | "boolean" => "boolean",
        "NUMBER" | "number" | "INTEGER" | "integer" => "number",
        "OBJECT" | "object" => "object",
        _ => "string",
    }
}

fn default_of(kind: &str) -> Value {
    match kind {
        "array" => json!([]),
        "boolean" => json!(false),
        "number" => json!(1),
        "object" => json!({}),
        _ => json!("as the script says"),
    }
}

fn added(path: &str, content: &str) -> String {
    let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch")
}

fn updated(path: &str, old: &str, new: &str) -> String {
    let lines =
        |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    let (old, new) = (lines('-', old), lines('+', new));
    format!("*** Begin Patch\n*** Update File: {path}\n@@\n{old}{new}*** End Patch")
}

fn heredoc(path: &str, content: &str) -> String {
    let end = if content.ends_with('\n') { "" } else { "\n" };
    format!("cat > {} <<'SCRIPTED'\n{content}{end}SCRIPTED", quoted(path))
}

fn substitution(path: &str, old: &str, new: &str) -> String {
    let program = "import sys; p,o,n=sys.argv[1:]; t=open(p).read(); assert o in t; open(p,'w').write(t.replace(o,n,1))";
    format!("python3 -c {} {} {} {}", quoted(program), quoted(path), quoted(old), quoted(new))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str, schema: Value) -> Offer {
        Offer { name: name.to_owned(), takes: ParameterShape::Object(schema) }
    }

    fn strings(names: &[&str], required: &[&str]) -> Value {
        let properties: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties, "required": required})
    }

    #[test]
    fn an_intent_is_a_call_of_each_agents_own_tool() {
        let write = Intent::WriteFile { path: "/a".to_owned(), content: "x\n".to_owned() };
        let shell = Intent::Shell { command: "ls".to_owned() };
        let argv = json!({"properties": {"command": {"type": "array"}}, "required": ["command"]});
        let patch = "*** Begin Patch\n*** Add File: /a\n+x\n*** End Patch";
        for (intent, offer, expected) in [
            (
                &write,
                offer("write", strings(&["filePath", "content"], &["filePath", "content"])),
                json!({"filePath": "/a", "content": "x\n"}),
            ),
            (
                &write,
                offer("Write", strings(&["file_path", "content"], &["file_path"])),
                json!({"file_path": "/a", "content": "x\n"}),
            ),
            (
                &write,
                offer("developer__text_editor", strings(&["path", "command", "file_text"], &["command"])),
                json!({"path": "/a", "command": "write", "file_text": "x\n"}),
            ),
            (&write, Offer { name: "apply_patch".to_owned(), takes: ParameterShape::Text }, json!(patch)),
            (
                &shell,
                offer("bash", strings(&["command", "description", "workdir"], &["command", "description"])),
                json!({"command": "ls", "description": "as the script says"}),
            ),
            (&shell, offer("shell", argv), json!({"command": ["bash", "-lc", "ls"]})),
            (&shell, offer("exec_command", strings(&["cmd"], &["cmd"])), json!({"cmd": "ls"})),
            (
                &write,
                offer("exec_command", strings(&["cmd"], &["cmd"])),
                json!({"cmd": "cat > '/a' <<'SCRIPTED'\nx\nSCRIPTED"}),
            ),
        ] {
            let (name, input) = call(intent, std::slice::from_ref(&offer)).expect("a call");
            assert_eq!(name, offer.name);
            let input = match input {
                Input::Object(value) => value,
                Input::Text(text) => json!(text),
            };
            assert_eq!(input, expected, "{name}");
        }
        assert!(call(&shell, &[]).is_none());
    }
}
