//! OpenAI's Chat Completions, and what many others make of them. Usage is told only to who asks for it.

use super::seen::Seen;
use crate::gateway::{
    json::{is_null, members, small, text_bytes},
    told::told,
};
use serde::Deserialize;
use serde_json::value::RawValue;

pub fn event(seen: &mut Seen, data: &[u8]) {
    if data.trim_ascii() == b"[DONE]" {
        seen.complete = true;
    } else {
        read(seen, data);
    }
}

pub fn whole(seen: &mut Seen, body: &[u8]) {
    seen.complete |= read(seen, body).is_some();
}

fn read(seen: &mut Seen, json: &[u8]) -> Option<()> {
    let [choices, usage, error] = members(json, ["choices", "usage", "error"]).ok()?;
    if let Some(choices) = choices {
        seen.said(text_bytes(Some(choices)));
        seen.complete |= is_finished(choices);
    }
    count(seen, usage);
    if !is_null(error) {
        seen.trouble(small(error).as_ref().and_then(told));
    }
    Some(())
}

/// Not everybody says `[DONE]`.
fn is_finished(choices: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow, default)]
        finish_reason: Option<&'a RawValue>,
    }
    let choices: Result<Vec<Choice<'_>>, _> = serde_json::from_str(choices.get());
    choices.is_ok_and(|choices| choices.iter().any(|choice| !is_null(choice.finish_reason)))
}

/// `prompt_tokens` has what was read from the cache in it.
fn count(seen: &mut Seen, usage: Option<&RawValue>) {
    let Some(usage) = small(usage) else { return };
    let number = |path: &str| usage.pointer(path).and_then(serde_json::Value::as_u64);
    let Some(input) = number("/prompt_tokens") else { return };
    let cached =
        number("/prompt_tokens_details/cached_tokens").or_else(|| number("/prompt_cache_hit_tokens"));
    let counts = &mut seen.counts;
    counts.cache_read = cached.unwrap_or(0).min(input);
    counts.input = Some(input - counts.cache_read);
    counts.output = number("/completion_tokens").or(counts.output);
    counts.reasoning = number("/completion_tokens_details/reasoning_tokens").unwrap_or(0);
}
