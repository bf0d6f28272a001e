//! Anthropic's Messages. Its `input_tokens` include neither tokens read from the cache nor tokens written to
//! it.

use super::response_facts::ResponseFacts;
use crate::{
    ActiveBudgets,
    gateway::{
        external_refs::{reject_external_refs, reject_price_change, reject_stored},
        json::{is, is_null, members, parse_small, text_bytes},
        model_request::{InvalidRequest, ModelRequest, object, reject_remote_tools},
        provider_error::ProviderError,
    },
};
use serde_json::value::RawValue;

pub fn parse_request(body: &[u8], bounded: ActiveBudgets) -> Result<ModelRequest, InvalidRequest> {
    let [model, stream, max, servers, tools] =
        object(body, ["model", "stream", "max_tokens", "mcp_servers", "tools"])?;
    if servers.is_some_and(|servers| !matches!(servers.get(), "null" | "[]")) {
        return Err(InvalidRequest::RemoteTools);
    }
    reject_remote_tools(tools)?;
    if bounded.tokens {
        let names = ["messages", "container", "service_tier", "speed", "inference_geo"];
        let [messages, container, tier, speed, geo] = object(body, names)?;
        reject_stored(&[("container", container)])?;
        reject_external_refs(messages)?;
        if bounded.cost {
            reject_price_change("service_tier", tier, &["auto", "standard_only"])?;
            reject_price_change("speed", speed, &["standard"])?;
            reject_price_change("inference_geo", geo, &["global"])?;
        }
    }
    ModelRequest::named(body, model)?.streaming(stream).limited(body, &[max], "\"max_tokens\":")
}

/// `count_tokens`, which generates nothing.
pub fn parse_count_request(body: &[u8]) -> Result<ModelRequest, InvalidRequest> {
    let [model] = object(body, ["model"])?;
    Ok(ModelRequest::named(body, model)?.counting())
}

pub fn read_event(facts: &mut ResponseFacts, data: &[u8]) {
    let names = ["type", "delta", "usage", "message", "error"];
    let Ok([kind, delta, usage, message, error]) = members(data, names) else { return };
    if is(kind, "content_block_delta") {
        facts.add_text(text_bytes(delta));
    } else if is(kind, "message_start") {
        let inner = message.map(|message| members(message.get().as_bytes(), ["usage"]));
        if let Some(Ok([usage])) = inner {
            read_usage(facts, usage);
        }
    } else if is(kind, "message_delta") {
        read_usage(facts, usage);
    } else if is(kind, "message_stop") {
        facts.complete = true;
    }
    if is(kind, "error") || !is_null(error) {
        facts.record_error(parse_small(error).as_ref().and_then(ProviderError::parse_object));
    }
}

pub fn read_json(facts: &mut ResponseFacts, body: &[u8]) {
    let Ok([kind, usage, content, error]) = members(body, ["type", "usage", "content", "error"]) else {
        return;
    };
    facts.complete = true;
    facts.add_text(text_bytes(content));
    read_usage(facts, usage);
    if is(kind, "error") || !is_null(error) {
        facts.record_error(parse_small(error).as_ref().and_then(ProviderError::parse_object));
    }
}

/// Later reports are cumulative, and may leave out what earlier ones said.
fn read_usage(facts: &mut ResponseFacts, usage: Option<&RawValue>) {
    let Some(usage) = parse_small(usage) else { return };
    let number = |name: &str| usage.get(name).and_then(serde_json::Value::as_u64);
    let counts = &mut facts.counts;
    counts.input = number("input_tokens").or(counts.input);
    counts.output = number("output_tokens").or(counts.output);
    counts.cache_read = number("cache_read_input_tokens").unwrap_or(counts.cache_read);
    counts.cache_write = number("cache_creation_input_tokens").unwrap_or(counts.cache_write);
}
