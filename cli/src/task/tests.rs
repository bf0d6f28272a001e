//! Fixtures for tests of this module and of the commands.

use protocol::TaskResult;
use serde_json::{Value, json};

/// Returns a result with default fields, overridden by `fields`.
pub fn result(fields: &str) -> TaskResult {
    let mut value = json!({
        "status": "succeeded",
        "build": { "status": "skipped", "duration_ms": 0 },
        "health": { "status": "unknown" },
        "durations": { "queued_ms": 0, "preparing_ms": 3, "checkpoint_ms": 40, "agent_ms": 12_300, "build_ms": 0,
            "health_ms": 0, "total_ms": 12_345 },
        "checkpoint": { "state": "taken", "id": "3f2a91c0ffee3f2a91c0ffee3f2a91c0ffee3f2a" },
    });
    let more: Value = serde_json::from_str(fields).expect("JSON");
    for (key, field) in more.as_object().expect("an object") {
        value[key] = field.clone();
    }
    serde_json::from_value(value).expect("a result")
}
