//! OpenAI's Responses.

use super::seen::Seen;
use crate::gateway::{
    json::{is, is_null, members, small, text, text_bytes},
    told::told,
};
use serde_json::value::RawValue;

pub fn event(seen: &mut Seen, data: &[u8]) {
    let names = ["type", "delta", "response", "error", "message", "code"];
    let Ok([kind, delta, response, error, message, code]) = members(data, names) else { return };
    if kind.is_some_and(|kind| kind.get().ends_with(".delta\"")) {
        seen.said(text_bytes(delta));
        return;
    }
    let ends = ["response.completed", "response.incomplete", "response.failed", "response.done"];
    if ends.iter().any(|end| is(kind, end)) {
        seen.complete = true;
        if let Some(response) = response {
            result(seen, response.get().as_bytes());
        }
    }
    if is(kind, "response.failed") && seen.trouble.is_none() {
        seen.trouble(None);
    } else if !is_null(error) {
        seen.trouble(small(error).as_ref().and_then(told));
    } else if is(kind, "error") {
        let kind = text(code).unwrap_or_default();
        seen.trouble(text(message).map(|words| (words, kind)));
    }
}

pub fn whole(seen: &mut Seen, body: &[u8]) {
    seen.complete |= result(seen, body).is_some();
}

fn result(seen: &mut Seen, json: &[u8]) -> Option<()> {
    let [status, usage, error] = members(json, ["status", "usage", "error"]).ok()?;
    count(seen, usage);
    if !is_null(error) {
        seen.trouble(small(error).as_ref().and_then(told));
    } else if is(status, "failed") {
        seen.trouble(None);
    }
    Some(())
}

/// `input_tokens` has what was read from the cache in it.
fn count(seen: &mut Seen, usage: Option<&RawValue>) {
    let Some(usage) = small(usage) else { return };
    let number = |path: &str| usage.pointer(path).and_then(serde_json::Value::as_u64);
    let Some(input) = number("/input_tokens") else { return };
    let counts = &mut seen.counts;
    counts.cache_read = number("/input_tokens_details/cached_tokens").unwrap_or(0).min(input);
    counts.input = Some(input - counts.cache_read);
    counts.output = number("/output_tokens").or(counts.output);
    counts.reasoning = number("/output_tokens_details/reasoning_tokens").unwrap_or(0);
}
