//! Anthropic's Messages. `input_tokens` there has neither what was read from the cache nor what was written.

use super::seen::Seen;
use crate::gateway::{
    json::{is, is_null, members, small, text_bytes},
    told::told,
};
use serde_json::value::RawValue;

pub fn event(seen: &mut Seen, data: &[u8]) {
    let names = ["type", "delta", "usage", "message", "error"];
    let Ok([kind, delta, usage, message, error]) = members(data, names) else { return };
    if is(kind, "content_block_delta") {
        seen.said(text_bytes(delta));
    } else if is(kind, "message_start") {
        let inner = message.map(|message| members(message.get().as_bytes(), ["usage"]));
        if let Some(Ok([usage])) = inner {
            count(seen, usage);
        }
    } else if is(kind, "message_delta") {
        count(seen, usage);
    } else if is(kind, "message_stop") {
        seen.complete = true;
    }
    if is(kind, "error") || !is_null(error) {
        seen.trouble(small(error).as_ref().and_then(told));
    }
}

pub fn whole(seen: &mut Seen, body: &[u8]) {
    let Ok([kind, usage, content, error]) = members(body, ["type", "usage", "content", "error"]) else {
        return;
    };
    seen.complete = true;
    seen.said(text_bytes(content));
    count(seen, usage);
    if is(kind, "error") || !is_null(error) {
        seen.trouble(small(error).as_ref().and_then(told));
    }
}

/// Later ones tell sums, and not all of what earlier ones told.
fn count(seen: &mut Seen, usage: Option<&RawValue>) {
    let Some(usage) = small(usage) else { return };
    let number = |name: &str| usage.get(name).and_then(serde_json::Value::as_u64);
    let counts = &mut seen.counts;
    counts.input = number("input_tokens").or(counts.input);
    counts.output = number("output_tokens").or(counts.output);
    counts.cache_read = number("cache_read_input_tokens").unwrap_or(counts.cache_read);
    counts.cache_write = number("cache_creation_input_tokens").unwrap_or(counts.cache_write);
}
