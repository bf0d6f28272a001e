//! An event of a task as a value. Pure.

use protocol::{TaskFact, TaskResult, api::TaskEventView};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub enum ParsedFact {
    Known(TaskFact),
    /// Of a later hostd.
    Unknown(Map<String, Value>),
}

/// The view has the kind beside its fields, the words between hostd and runtimed call it `type`.
pub fn parse_fact(event: &TaskEventView) -> ParsedFact {
    let mut fields = event.fact.clone();
    fields.insert("type".to_owned(), Value::String(event.kind.clone()));
    match serde_json::from_value(Value::Object(fields)) {
        Ok(fact) => ParsedFact::Known(fact),
        Err(_) => ParsedFact::Unknown(event.fact.clone()),
    }
}

/// Fields as `name=value`, for what has no better way to be shown.
pub fn fields(map: &Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let shown = map.iter().filter(|(_, value)| !value.is_null());
    shown.map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
}

/// How the task ended, where the event says so. None of `done` is one that cannot be read.
pub fn result(event: &TaskEventView) -> Option<TaskResult> {
    serde_json::from_value(event.fact.get("result")?.clone()).ok()
}

pub fn is_done(event: &TaskEventView) -> bool {
    event.kind == "done"
}
