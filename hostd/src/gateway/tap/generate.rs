//! Gemini's generateContent. A stream of it comes as events, or as one JSON list that grows.

use super::seen::Seen;
use crate::gateway::{
    json::{is_null, members, small, text_bytes},
    told::told,
};
use serde::Deserialize;
use serde_json::value::RawValue;

pub fn event(seen: &mut Seen, data: &[u8]) {
    read(seen, data);
}

pub fn whole(seen: &mut Seen, body: &[u8]) {
    if body.trim_ascii_start().starts_with(b"[") {
        let Ok(list) = serde_json::from_slice::<Vec<&RawValue>>(body) else { return };
        for part in list {
            read(seen, part.get().as_bytes());
        }
        seen.complete = true;
    } else {
        seen.complete |= read(seen, body).is_some();
    }
}

fn read(seen: &mut Seen, json: &[u8]) -> Option<()> {
    let names = ["candidates", "usageMetadata", "promptFeedback", "error"];
    let [candidates, usage, feedback, error] = members(json, names).ok()?;
    if let Some(candidates) = candidates {
        seen.said(text_bytes(Some(candidates)));
        seen.complete |= is_finished(candidates);
    }
    // Refused before a word of it.
    let blocked = small(feedback).is_some_and(|feedback| feedback.get("blockReason").is_some());
    seen.complete |= blocked;
    count(seen, usage);
    if !is_null(error) {
        seen.trouble(small(error).as_ref().and_then(told));
    }
    Some(())
}

fn is_finished(candidates: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Candidate<'a> {
        #[serde(borrow, default, rename = "finishReason")]
        reason: Option<&'a RawValue>,
    }
    let candidates: Result<Vec<Candidate<'_>>, _> = serde_json::from_str(candidates.get());
    candidates.is_ok_and(|candidates| candidates.iter().any(|candidate| !is_null(candidate.reason)))
}

/// Told with every event; the last one counts. The prompt has what was read from the cache in it, the answer has
/// not what was thought.
fn count(seen: &mut Seen, usage: Option<&RawValue>) {
    let Some(usage) = small(usage) else { return };
    let number = |name: &str| usage.get(name).and_then(serde_json::Value::as_u64);
    let Some(prompt) = number("promptTokenCount") else { return };
    let counts = &mut seen.counts;
    let input = prompt.saturating_add(number("toolUsePromptTokenCount").unwrap_or(0));
    counts.cache_read = number("cachedContentTokenCount").unwrap_or(0).min(input);
    counts.input = Some(input - counts.cache_read);
    counts.reasoning = number("thoughtsTokenCount").unwrap_or(0);
    let answer = number("candidatesTokenCount").unwrap_or(0);
    counts.output = Some(answer.saturating_add(counts.reasoning));
}
