//! The messages that an event of the log becomes: their types, and their bodies.

use protocol::api::{WEBHOOK_TYPES, WebhookEvents};
use serde_json::{Map, Value, json};

/// Largest body of a delivery.
pub const BODY_MAX_BYTES: usize = 32 << 10;
/// Fields of an event that stay when its body is too large.
const IDENTITY: &[&str] = &["seq", "time", "sandbox", "task", "number", "kind", "origin"];

pub const GAP: &str = "webhook.gap";
pub const TEST: &str = "webhook.test";

/// A message to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: &'static str,
    /// JSON: `type`, `timestamp` and `data`.
    pub body: String,
}

/// The beginnings of the kinds of events in the log that may become messages: others need not be parsed.
pub const LOG_KINDS: &[&str] = &[
    "status",
    "build",
    "usage",
    "permission",
    "done",
    "sandbox.",
    "attempt.",
    "setup.",
    "task.reverted",
    "exec.",
    "service.",
    "egress",
    "git.",
    "gap",
];

/// Returns the id of a message: the same for each attempt, and after a crash.
pub fn message_id(webhook: &str, seq: u64, kind: &str) -> String {
    format!("msg_{webhook}_{seq}_{}", kind.replace('.', "-"))
}

/// Returns the messages of an event as the log shows it. An event may have two types: a task that used up its budget is
/// `task.done` and `budget.exceeded`.
pub fn messages(event: &Value, selected: &[WebhookEvents]) -> Vec<Message> {
    let admitted = |kind: &&'static str| selected.iter().any(|events| events.admits(kind));
    let time = event["time"].as_str().unwrap_or_default();
    types(event).into_iter().filter(admitted).map(|kind| message(kind, time, event)).collect()
}

/// Says that events after one number, up to another, were deleted before they were read.
pub fn gap_message(after: u64, through: u64, time: &str) -> Message {
    message(GAP, time, &json!({"after": after, "through": through, "reason": "events were deleted"}))
}

pub fn test_message(webhook: &str, time: &str) -> Message {
    message(TEST, time, &json!({"webhook": webhook}))
}

fn message(kind: &'static str, time: &str, data: &Value) -> Message {
    let body = |data: &Value| json!({"type": kind, "timestamp": time, "data": data}).to_string();
    let whole = body(data);
    let body = if whole.len() <= BODY_MAX_BYTES { whole } else { body(&shortened(data)) };
    Message { kind, body }
}

/// Returns what identifies an event, its short fields, and the short fields of its result.
fn shortened(event: &Value) -> Value {
    const SHORT_MAX_BYTES: usize = 1 << 10;
    const FIELDS_MAX: usize = 24;
    let short = |fields: &Map<String, Value>| -> Map<String, Value> {
        let small = |value: &Value| value.to_string().len() <= SHORT_MAX_BYTES;
        let kept = fields.iter().filter(|(name, value)| name.len() <= 64 && small(value));
        let (identity, rest): (Vec<_>, Vec<_>) =
            kept.partition(|(name, _)| IDENTITY.contains(&name.as_str()));
        let few = identity.into_iter().chain(rest).take(FIELDS_MAX);
        few.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let Some(fields) = event.as_object() else { return Value::Null };
    let mut kept = short(fields);
    // Together less than half of the largest body: 24 fields of 1 KiB, and of `result` or `data` only words and numbers.
    for name in ["result", "data"] {
        if let Some(inner) = fields.get(name).and_then(Value::as_object)
            && !kept.contains_key(name)
        {
            let plain = inner.iter().filter(|(_, value)| value.to_string().len() <= 128).take(FIELDS_MAX);
            let plain = plain.filter(|(name, _)| name.len() <= 64);
            let plain: Map<_, _> = plain.map(|(name, value)| (name.clone(), value.clone())).collect();
            kept.insert(name.to_owned(), Value::Object(plain));
        }
    }
    kept.insert("truncated".to_owned(), Value::Bool(true));
    Value::Object(kept)
}

/// The types of an event; none for kinds that webhooks are not told of.
fn types(event: &Value) -> Vec<&'static str> {
    let kind = event["kind"].as_str().unwrap_or_default();
    // Events of an agent have a number; their kinds are words of their own.
    if event.get("number").is_some() {
        return of_task(kind, event);
    }
    let mut types: Vec<&'static str> = match kind {
        "egress" if event["data"]["verdict"] == "denied" => vec!["egress.denied"],
        "gap" => vec!["log.gap"],
        // What these say comes from the agent's events, with more.
        "task.queued" | "task.started" | "task.ended" => vec![],
        kind => WEBHOOK_TYPES.iter().filter(|known| **known == kind).copied().collect(),
    };
    if reached_a_limit(kind, &event["data"]) {
        types.push("limit.reached");
    }
    types
}

fn of_task(kind: &str, event: &Value) -> Vec<&'static str> {
    let result = &event["result"];
    match kind {
        "status" => vec!["task.status"],
        "build" => vec!["task.build"],
        "usage" => vec!["task.usage"],
        "permission" if event["state"] == "asked" => vec!["permission.asked"],
        "permission" => vec!["permission.decided"],
        "done" => {
            let over_budget = result["failure_reason"] == "budget_exceeded";
            let limit = is_limited(result);
            let more = [(over_budget, "budget.exceeded"), (limit, "limit.reached")];
            let more = more.into_iter().filter(|(is, _)| *is).map(|(_, kind)| kind);
            std::iter::once("task.done").chain(more).collect()
        }
        _ => vec![],
    }
}

/// Whether an event says that a limit of memory, processes or disk was reached.
fn reached_a_limit(kind: &str, data: &Value) -> bool {
    match kind {
        "sandbox.evicted" => true,
        "exec.ended" => is_limited(data),
        kind if kind.starts_with("sandbox.") => data["post_mortem"]["cause"] == "oom",
        _ => false,
    }
}

/// Whether the end of a job names a limit, as the cause or as a hint.
fn is_limited(ended: &Value) -> bool {
    let hints = ended["hints"].as_array().into_iter().flatten();
    let mut words = hints.filter_map(|hint| hint["kind"].as_str());
    ended["exit"]["kind"] == "oom"
        || words.any(|word| matches!(word, "pids_limit" | "oom_kills" | "disk_full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(events: &[&str]) -> Vec<WebhookEvents> {
        events.iter().map(|text| text.parse().expect("a pattern")).collect()
    }

    fn kinds(event: &Value, events: &[&str]) -> Vec<&'static str> {
        messages(event, &filter(events)).into_iter().map(|message| message.kind).collect()
    }

    #[test]
    fn an_event_has_the_types_that_it_says() {
        let table = [
            (json!({"kind": "sandbox.running", "data": {}}), vec!["sandbox.running"]),
            (json!({"kind": "sandbox.progress", "data": {"text": "x"}}), vec![]),
            (json!({"kind": "sandbox.evicted", "data": {}}), vec!["sandbox.evicted", "limit.reached"]),
            (
                json!({"kind": "sandbox.ended", "data": {"post_mortem": {"cause": "oom"}}}),
                vec!["sandbox.ended", "limit.reached"],
            ),
            (
                json!({"kind": "exec.ended", "data": {"exit": {"kind": "oom"}}}),
                vec!["exec.ended", "limit.reached"],
            ),
            (json!({"kind": "exec.ended", "data": {"exit": {"kind": "exited"}}}), vec!["exec.ended"]),
            (json!({"kind": "egress", "data": {"verdict": "denied"}}), vec!["egress.denied"]),
            (json!({"kind": "egress", "data": {"verdict": "allowed"}}), vec![]),
            (json!({"kind": "gap", "data": {}}), vec!["log.gap"]),
            (json!({"kind": "task.ended", "data": {}}), vec![]),
            (json!({"kind": "message", "number": 3, "text": "x"}), vec![]),
            (json!({"kind": "status", "number": 1}), vec!["task.status"]),
            (json!({"kind": "permission", "number": 2, "state": "asked"}), vec!["permission.asked"]),
            (json!({"kind": "permission", "number": 2, "state": "allowed"}), vec!["permission.decided"]),
            (json!({"kind": "done", "number": 9, "result": {"status": "succeeded"}}), vec!["task.done"]),
            (
                json!({"kind": "done", "number": 9, "result": {"failure_reason": "budget_exceeded"}}),
                vec!["task.done", "budget.exceeded"],
            ),
            (json!({"kind": "unheard.of", "data": {}}), vec![]),
        ];
        for (event, expected) in table {
            assert_eq!(kinds(&event, &["*"]), expected, "{event}");
            let kind = event["kind"].as_str().expect("a kind");
            let is_read = LOG_KINDS.iter().any(|begin| kind.starts_with(begin));
            assert!(is_read || expected.is_empty(), "{kind}");
        }
        let over = json!({"kind": "done", "number": 9, "result": {"failure_reason": "budget_exceeded"}});
        assert_eq!(kinds(&over, &["budget.*"]), ["budget.exceeded"]);
        assert_eq!(kinds(&over, &["sandbox.*", "permission.asked"]), [""; 0]);
    }

    #[test]
    fn every_hint_of_a_limit_is_known() {
        for hint in [
            protocol::Hint::PidsLimit { times: 1 },
            protocol::Hint::OomKills { times: 1 },
            protocol::Hint::DiskFull,
        ] {
            assert!(is_limited(&json!({"hints": [hint]})), "{hint:?}");
        }
        assert!(!is_limited(&json!({"hints": [protocol::Hint::Leaky]})));
    }

    #[test]
    fn a_body_has_the_event_as_it_is_unless_that_is_too_large() {
        let event = json!({"seq": 7, "time": "2026-01-01T00:00:00.000Z", "sandbox": "s", "kind": "sandbox.running", "data": {}});
        let body: Value = serde_json::from_str(&messages(&event, &filter(&["*"]))[0].body).expect("JSON");
        let expected =
            json!({"type": "sandbox.running", "timestamp": "2026-01-01T00:00:00.000Z", "data": event});
        assert_eq!(body, expected);

        let long = "x".repeat(BODY_MAX_BYTES);
        let done = json!({"seq": 8, "time": "t", "sandbox": "s", "task": "t1", "number": 4, "kind": "done",
            "result": {"status": "failed", "message": "short", "final_message": {"data": long}}});
        let text = &messages(&done, &filter(&["task.*"]))[0].body;
        assert!(text.len() <= BODY_MAX_BYTES);
        let body: Value = serde_json::from_str(text).expect("JSON");
        let expected = json!({"seq": 8, "time": "t", "sandbox": "s", "task": "t1", "number": 4, "kind": "done",
            "result": {"status": "failed", "message": "short"}, "truncated": true});
        assert_eq!(body["data"], expected);

        let wide: Map<String, Value> =
            (0..500).map(|n| (format!("f{n}"), json!("y".repeat(1_000)))).collect();
        let wide = json!({"seq": 9, "kind": "sandbox.error", "data": wide});
        assert!(messages(&wide, &filter(&["*"]))[0].body.len() <= BODY_MAX_BYTES);
    }

    #[test]
    fn an_id_is_the_same_for_the_same_event_and_type_only() {
        assert_eq!(message_id("w", 7, "task.done"), "msg_w_7_task-done");
        assert_ne!(message_id("w", 7, "task.done"), message_id("w", 7, "budget.exceeded"));
    }
}
