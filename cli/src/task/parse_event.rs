//! Parses events of a task. Pure.

use protocol::{TaskFact, TaskResult, api::TaskEventView};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub enum ParsedFact {
    Known(TaskFact),
    /// A kind of a newer hostd.
    Unknown(Map<String, Value>),
}

/// Parses the fields of an event. The API calls the kind `kind`, the control protocol `type`.
pub fn parse_fact(event: &TaskEventView) -> ParsedFact {
    let mut fields = event.fact.clone();
    fields.insert("type".to_owned(), Value::String(event.kind.clone()));
    match serde_json::from_value(Value::Object(fields)) {
        Ok(fact) => ParsedFact::Known(fact),
        Err(_) => ParsedFact::Unknown(event.fact.clone()),
    }
}

/// Formats fields as `name=value`.
pub fn fields(map: &Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let shown = map.iter().filter(|(_, value)| !value.is_null());
    shown.map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
}

/// Returns the result in the event; `None` for a `done` event means that it cannot be parsed.
pub fn result(event: &TaskEventView) -> Option<TaskResult> {
    serde_json::from_value(event.fact.get("result")?.clone()).ok()
}

pub fn is_done(event: &TaskEventView) -> bool {
    event.kind == "done"
}
