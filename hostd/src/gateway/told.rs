//! What providers say of errors, in JSON. Pure.

use super::json::{members, small, text};
use serde_json::Value;

/// Of an error that is told in JSON: its words, and the kind that it names.
pub fn error_words(body: &[u8]) -> Option<(String, String)> {
    // Some tell a list of one.
    let body = body.trim_ascii();
    let body = body.strip_prefix(b"[").and_then(|list| list.strip_suffix(b"]")).unwrap_or(body);
    let [error, message, detail] = members(body, ["error", "message", "detail"]).ok()?;
    if let Some(words) = text(error).or_else(|| text(message)).or_else(|| text(detail)) {
        return Some((words, String::new()));
    }
    told(&small(error)?)
}

/// As all of them tell it: `{"message", "type" | "code" | "status"}`.
pub fn told(error: &Value) -> Option<(String, String)> {
    let member = |name: &str| error.get(name).and_then(Value::as_str);
    let kind = ["code", "status", "type"].into_iter().find_map(member).unwrap_or_default();
    let words = member("message").or(error.as_str()).unwrap_or(kind);
    (!words.is_empty()).then(|| (words.to_owned(), kind.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_in_every_dialect() {
        let table = [
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
                "busy",
                "overloaded_error",
            ),
            (
                r#"{"error":{"message":"no","type":"x","param":null,"code":"insufficient_quota"}}"#,
                "no",
                "insufficient_quota",
            ),
            (
                r#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]"#,
                "slow",
                "RESOURCE_EXHAUSTED",
            ),
            (r#"{"error":"plain"}"#, "plain", ""),
            (r#"{"detail":"not here"}"#, "not here", ""),
        ];
        for (body, words, kind) in table {
            assert_eq!(error_words(body.as_bytes()), Some((words.to_owned(), kind.to_owned())), "{body}");
        }
        for none in ["", "<html>", "{}", r#"{"error":{}}"#, r#"{"error":null}"#] {
            assert_eq!(error_words(none.as_bytes()), None, "{none}");
        }
    }
}
