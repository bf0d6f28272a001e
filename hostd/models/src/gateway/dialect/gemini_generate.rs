//! Gemini's generateContent. A streamed response comes as events, or as one JSON list that grows.

use super::response_facts::ResponseFacts;
use crate::{
    ActiveBudgets,
    gateway::{
        external_refs::{reject_external_refs, reject_stored},
        json::{is_null, members, parse_small, span, text_bytes},
        model_request::{
            InvalidRequest, ModelRequest, insert_point, object, reject_multiple_answers, reject_service_tier,
        },
        provider_error::ProviderError,
        route::GeminiMethod,
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;

pub fn parse_request(
    body: &[u8],
    model: &str,
    method: GeminiMethod,
    bounded: ActiveBudgets,
) -> Result<ModelRequest, InvalidRequest> {
    let [camel, snake] = object(body, ["generationConfig", "generation_config"])?;
    if camel.is_some() && snake.is_some() {
        return Err(InvalidRequest::DuplicateConfig);
    }
    let mut request = ModelRequest::of(model.to_owned(), body);
    request.params.streams = method == GeminiMethod::Stream;
    if method == GeminiMethod::Count {
        return Ok(request.counting());
    }
    if bounded.tokens {
        let names =
            ["contents", "systemInstruction", "system_instruction", "cachedContent", "cached_content"];
        let [contents, system, system_snake, cached, cached_snake] = object(body, names)?;
        let [tier, tier_snake] = object(body, ["serviceTier", "service_tier"])?;
        reject_stored(&[("cachedContent", cached), ("cached_content", cached_snake)])?;
        [contents, system, system_snake].into_iter().try_for_each(reject_external_refs)?;
        reject_service_tier(tier, bounded)?;
        reject_service_tier(tier_snake, bounded)?;
    }
    with_config(request, body, camel.or(snake))
}

/// Reads the limit of the response, which is a member of the generation config.
fn with_config(
    request: ModelRequest,
    body: &[u8],
    config: Option<&RawValue>,
) -> Result<ModelRequest, InvalidRequest> {
    let Some(config) = config.filter(|config| !is_null(Some(config))) else {
        let mut request = request.limited(body, &[], "")?;
        request.insert_limit = insert_point(body, 0, "\"generationConfig\":{\"maxOutputTokens\":", "}");
        return Ok(request);
    };
    let inner = config.get().as_bytes();
    let names = ["maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count"];
    let [camel, snake, count, count_snake] = object(inner, names)?;
    reject_multiple_answers(count, "candidateCount")?;
    reject_multiple_answers(count_snake, "candidate_count")?;
    let mut request = request.limited(body, &[camel, snake], "")?;
    request.insert_limit = insert_point(body, span(body, config).start, "\"maxOutputTokens\":", "");
    Ok(request)
}

pub fn read_event(facts: &mut ResponseFacts, data: &[u8]) {
    read_chunk(facts, data);
}

pub fn read_json(facts: &mut ResponseFacts, body: &[u8]) {
    if body.trim_ascii_start().starts_with(b"[") {
        let Ok(list) = serde_json::from_slice::<Vec<&RawValue>>(body) else { return };
        for chunk in list {
            read_chunk(facts, chunk.get().as_bytes());
        }
        facts.complete = true;
    } else {
        facts.complete |= read_chunk(facts, body).is_some();
    }
}

fn read_chunk(facts: &mut ResponseFacts, json: &[u8]) -> Option<()> {
    let names = ["candidates", "usageMetadata", "promptFeedback", "error"];
    let [candidates, usage, feedback, error] = members(json, names).ok()?;
    if let Some(candidates) = candidates {
        facts.add_text(text_bytes(Some(candidates)));
        facts.complete |= is_finished(candidates);
    }
    // A blocked prompt gets no candidates, and the response is complete without any.
    let blocked = parse_small(feedback).is_some_and(|feedback| feedback.get("blockReason").is_some());
    facts.complete |= blocked;
    read_usage(facts, usage);
    if !is_null(error) {
        facts.record_error(parse_small(error).as_ref().and_then(ProviderError::parse_object));
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

/// Every event reports usage, and the last report counts. The prompt count includes tokens read from the
/// cache; the candidate count excludes tokens of thoughts.
fn read_usage(facts: &mut ResponseFacts, usage: Option<&RawValue>) {
    let Some(usage) = parse_small(usage) else { return };
    let number = |name: &str| usage.get(name).and_then(serde_json::Value::as_u64);
    let Some(prompt) = number("promptTokenCount") else { return };
    let counts = &mut facts.counts;
    let input = prompt.saturating_add(number("toolUsePromptTokenCount").unwrap_or(0));
    counts.cache_read = number("cachedContentTokenCount").unwrap_or(0).min(input);
    counts.input = Some(input - counts.cache_read);
    counts.reasoning = number("thoughtsTokenCount").unwrap_or(0);
    let candidates = number("candidatesTokenCount").unwrap_or(0);
    counts.output = Some(candidates.saturating_add(counts.reasoning));
}
