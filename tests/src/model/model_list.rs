//! Which models the server says it has, in each dialect. Some are there not to be chosen.

use super::dialect::Dialect;
use serde_json::{Value, json};

/// By the path of the list and what else was sent: two dialects have the same one.
pub fn speech_of(path: &str, says_version: bool) -> Dialect {
    match (path.ends_with("/v1beta/models"), says_version) {
        (true, _) => Dialect::Generate,
        (false, true) => Dialect::Messages,
        (false, false) => Dialect::Responses,
    }
}

pub fn listed(speech: Dialect) -> Value {
    match speech {
        Dialect::Messages => {
            let model = |id: &str, at: &str| json!({"type": "model", "id": id, "created_at": at});
            json!({"has_more": false, "data": [
                model("claude-opus-4-5-20251101", "2025-11-24T00:00:00Z"),
                model("claude-sonnet-4-20250514", "2025-05-22T00:00:00Z"),
                model("claude-sonnet-4-5-20250929", "2025-09-29T00:00:00Z"),
            ]})
        }
        Dialect::Chat | Dialect::Responses => {
            let names =
                ["text-embedding-3-large", "gpt-5.1", "gpt-5.1-codex", "gpt-5.1-codex-mini", "gpt-4o"];
            let model = |id| json!({"id": id, "object": "model", "created": 0, "owned_by": "fake"});
            json!({"object": "list", "data": names.map(model)})
        }
        Dialect::Generate => {
            let model = |name: &str, method: &str| json!({"name": format!("models/{name}"), "supportedGenerationMethods": [method]});
            json!({"models": [
                model("embedding-001", "embedContent"),
                model("gemini-3-pro-preview", "generateContent"),
                model("gemini-2.5-flash", "generateContent"),
                model("gemini-2.5-pro", "generateContent"),
            ]})
        }
    }
}
