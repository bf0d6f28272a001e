//! OpenAI's Chat Completions, and the many APIs that are compatible with them. A stream reports its usage
//! only on request, so the gateway requests it.

use super::{ApiRules, DialectRules, ResponseFacts, openai::Openai};
use crate::{
    ActiveBudgets, Dialect,
    gateway::{
        external_refs::reject_external_refs,
        json::{is_null, members, parse_small, span, text_bytes},
        model_request::{
            InvalidRequest, ModelRequest, insert_point, object, reject_multiple_answers, reject_service_tier,
        },
        provider_error::ProviderError,
        route::{Endpoint, Operation},
    },
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

pub struct Chat;

impl ApiRules for Chat {
    fn dialect(&self) -> Dialect {
        Dialect::Openai
    }

    fn path(&self, _: Operation, _: &str) -> String {
        "/chat/completions".to_owned()
    }

    fn parse_request(
        &self,
        _: &Endpoint,
        body: &[u8],
        bounded: ActiveBudgets,
    ) -> Result<ModelRequest, InvalidRequest> {
        let names = ["model", "stream", "max_tokens", "max_completion_tokens", "n", "stream_options"];
        let [model, stream, old, max, n, options] = object(body, names)?;
        reject_multiple_answers(n, "n")?;
        if bounded.tokens {
            let [messages, tier] = object(body, ["messages", "service_tier"])?;
            reject_external_refs(messages)?;
            reject_service_tier(tier, bounded)?;
        }
        let request = ModelRequest::named(body, model)?.streaming(stream);
        with_usage(request, body, options)?.limited(body, &[max, old], "\"max_completion_tokens\":")
    }

    fn read_event(&self, facts: &mut ResponseFacts, data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            facts.complete = true;
        } else {
            read_chunk(facts, data);
        }
    }

    fn read_json(&self, facts: &mut ResponseFacts, body: &[u8]) {
        facts.complete |= read_chunk(facts, body).is_some();
    }

    fn final_error_event(&self, message: &str) -> String {
        format!("data: {}\n\n", Openai.error_json(500, Some("server_error"), message))
    }
}

/// Adds `stream_options.include_usage` to a request that streams.
fn with_usage(
    mut request: ModelRequest,
    body: &[u8],
    options: Option<&RawValue>,
) -> Result<ModelRequest, InvalidRequest> {
    if !request.params.streams {
        return Ok(request);
    }
    let Some(options) = options else {
        let point = insert_point(body, 0, "\"stream_options\":{\"include_usage\":", "}");
        request.edits.extend(point.map(|point| point.with("true")));
        return Ok(request);
    };
    if is_null(Some(options)) {
        request.edits.push((span(body, options), "{\"include_usage\":true}".to_owned()));
        return Ok(request);
    }
    let [usage] = object(options.get().as_bytes(), ["include_usage"])?;
    match usage {
        Some(usage) if usage.get() == "true" => {}
        Some(usage) => request.edits.push((span(body, usage), "true".to_owned())),
        None => {
            let point = insert_point(body, span(body, options).start, "\"include_usage\":", "");
            request.edits.extend(point.map(|point| point.with("true")));
        }
    }
    Ok(request)
}

fn read_chunk(facts: &mut ResponseFacts, json: &[u8]) -> Option<()> {
    let [choices, usage, error] = members(json, ["choices", "usage", "error"]).ok()?;
    if let Some(choices) = choices {
        facts.add_text(text_bytes(Some(choices)));
        facts.complete |= is_finished(choices);
    }
    read_usage(facts, usage);
    if !is_null(error) {
        facts.record_error(parse_small(error).as_ref().and_then(ProviderError::parse_object));
    }
    Some(())
}

/// Some compatible APIs never send `[DONE]`, so a finish reason ends a response too.
fn is_finished(choices: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow, default)]
        finish_reason: Option<&'a RawValue>,
    }
    let choices: Result<Vec<Choice<'_>>, _> = serde_json::from_str(choices.get());
    choices.is_ok_and(|choices| choices.iter().any(|choice| !is_null(choice.finish_reason)))
}

/// `prompt_tokens` include those that were read from the cache.
fn read_usage(facts: &mut ResponseFacts, usage: Option<&RawValue>) {
    let Some(usage) = parse_small(usage) else { return };
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let Some(input) = number("/prompt_tokens") else { return };
    let cached =
        number("/prompt_tokens_details/cached_tokens").or_else(|| number("/prompt_cache_hit_tokens"));
    let counts = &mut facts.counts;
    counts.cache_read = cached.unwrap_or(0).min(input);
    counts.input = Some(input - counts.cache_read);
    counts.output = number("/completion_tokens").or(counts.output);
    counts.reasoning = number("/completion_tokens_details/reasoning_tokens").unwrap_or(0);
}
