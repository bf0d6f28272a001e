//! Events of a task, each as one line of text for people and models.

use protocol::api::TaskEventView;
use serde_json::Value;

/// Returns the text of an event; `None` for one that says nothing by itself.
pub fn event_text(event: &TaskEventView) -> Option<String> {
    let text = |name: &str| event.fact.get(name).and_then(Value::as_str);
    let line = match event.kind.as_str() {
        "message" => text("text")?.to_owned(),
        "thought" => format!("(thinks) {}", text("text")?),
        "log" => format!("[log] {}", text("text")?),
        "status" => format!("[{}]", text("phase")?),
        "tool" => {
            let title = text("title").or_else(|| text("tool"))?;
            format!("[tool] {title}: {}", text("status").unwrap_or("running"))
        }
        "file" => {
            let path = event.fact.get("path")?.get("data")?.as_str()?;
            format!("[file] {} {path}", text("change")?)
        }
        "permission" => {
            let title = event.fact.get("about").and_then(|tool| tool.get("title")).and_then(Value::as_str);
            format!("[permission] {} {}", text("state")?, title.unwrap_or_default())
        }
        "build" => format!("[build] {}", text("status")?),
        // Tables and numbers, which the result has in the end.
        _ => return None,
    };
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_a_line() {
        let table = [
            (json!({"kind": "message", "text": "reading"}), Some("reading")),
            (json!({"kind": "status", "phase": "agent"}), Some("[agent]")),
            (
                json!({"kind": "tool", "id": "1", "title": "npm test", "status": "completed"}),
                Some("[tool] npm test: completed"),
            ),
            (
                json!({"kind": "file", "path": {"data": "a.txt"}, "change": "added"}),
                Some("[file] added a.txt"),
            ),
            (
                json!({"kind": "permission", "state": "asked", "about": {"title": "rm"}}),
                Some("[permission] asked rm"),
            ),
            (json!({"kind": "usage", "input_tokens": 1}), None),
            (json!({"kind": "message"}), None),
        ];
        for (mut fields, expected) in table {
            let rest = json!({"seq": 1, "time": "t", "sandbox": "01jb9xyzabcdefghjkmnpqrstv", "task": "t"});
            fields.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            let event: TaskEventView = serde_json::from_value(fields).unwrap();
            assert_eq!(event_text(&event).as_deref(), expected);
        }
    }
}
