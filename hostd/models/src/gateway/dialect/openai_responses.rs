//! OpenAI's Responses.

use super::{ApiRules, ResponseFacts};
use crate::{
    ActiveBudgets, Dialect,
    gateway::{
        external_refs::{reject_external_refs, reject_stored},
        json::{is, is_null, members, parse_small, text, text_bytes},
        model_request::{InvalidRequest, ModelRequest, object, reject_remote_tools, reject_service_tier},
        provider_error::ProviderError,
        route::{Endpoint, Operation},
    },
};
use serde_json::{Value, json, value::RawValue};

pub struct Responses;

impl ApiRules for Responses {
    fn dialect(&self) -> Dialect {
        Dialect::Openai
    }

    fn path(&self, _: Operation, _: &str) -> String {
        "/responses".to_owned()
    }

    fn parse_request(
        &self,
        _: &Endpoint,
        body: &[u8],
        bounded: ActiveBudgets,
    ) -> Result<ModelRequest, InvalidRequest> {
        let [model, stream, max, background, tools] =
            object(body, ["model", "stream", "max_output_tokens", "background", "tools"])?;
        reject_remote_tools(tools)?;
        if background.is_some_and(|value| !matches!(value.get(), "false" | "null")) {
            return Err(InvalidRequest::Background);
        }
        if bounded.tokens {
            let names = ["input", "previous_response_id", "conversation", "prompt", "service_tier"];
            let [input, previous, conversation, prompt, tier] = object(body, names)?;
            let stored =
                [("previous_response_id", previous), ("conversation", conversation), ("prompt", prompt)];
            reject_stored(&stored)?;
            reject_external_refs(input)?;
            reject_service_tier(tier, bounded)?;
        }
        ModelRequest::named(body, model)?.streaming(stream).limited(body, &[max], "\"max_output_tokens\":")
    }

    fn read_event(&self, facts: &mut ResponseFacts, data: &[u8]) {
        let names = ["type", "delta", "response", "error", "message", "code"];
        let Ok([kind, delta, response, error, message, code]) = members(data, names) else { return };
        if kind.is_some_and(|kind| kind.get().ends_with(".delta\"")) {
            facts.add_text(text_bytes(delta));
            return;
        }
        let ends = ["response.completed", "response.incomplete", "response.failed", "response.done"];
        if ends.iter().any(|end| is(kind, end)) {
            facts.complete = true;
            if let Some(response) = response {
                read_response(facts, response.get().as_bytes());
            }
        }
        if is(kind, "response.failed") && facts.error.is_none() {
            facts.record_error(None);
        } else if !is_null(error) {
            facts.record_error(parse_small(error).as_ref().and_then(ProviderError::parse_object));
        } else if is(kind, "error") {
            let kind = text(code).unwrap_or_default();
            facts.record_error(text(message).map(|message| ProviderError { message, kind }));
        }
    }

    fn read_json(&self, facts: &mut ResponseFacts, body: &[u8]) {
        facts.complete |= read_response(facts, body).is_some();
    }

    fn final_error_event(&self, message: &str) -> String {
        // Some clients handle the one event, some the other.
        let error = json!({"type": "error", "code": "server_error", "message": message, "param": null});
        let response = json!({"object": "response", "status": "failed",
            "error": {"code": "server_error", "message": message}});
        let failed = json!({"type": "response.failed", "response": response});
        format!("event: error\ndata: {error}\n\nevent: response.failed\ndata: {failed}\n\n")
    }
}

fn read_response(facts: &mut ResponseFacts, json: &[u8]) -> Option<()> {
    let [status, usage, error] = members(json, ["status", "usage", "error"]).ok()?;
    read_usage(facts, usage);
    if !is_null(error) {
        facts.record_error(parse_small(error).as_ref().and_then(ProviderError::parse_object));
    } else if is(status, "failed") {
        facts.record_error(None);
    }
    Some(())
}

/// `input_tokens` include those that were read from the cache.
fn read_usage(facts: &mut ResponseFacts, usage: Option<&RawValue>) {
    let Some(usage) = parse_small(usage) else { return };
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let Some(input) = number("/input_tokens") else { return };
    let counts = &mut facts.counts;
    counts.cache_read = number("/input_tokens_details/cached_tokens").unwrap_or(0).min(input);
    counts.input = Some(input - counts.cache_read);
    counts.output = number("/output_tokens").or(counts.output);
    counts.reasoning = number("/output_tokens_details/reasoning_tokens").unwrap_or(0);
}
