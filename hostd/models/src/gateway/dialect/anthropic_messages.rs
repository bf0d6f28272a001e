//! Anthropic's Messages. Its `input_tokens` include neither tokens read from the cache nor tokens written to
//! it.

use super::{ApiRules, DialectRules, Forwarded, KeyHeader, ModelApi, ModelListFormat, ResponseFacts};
use crate::{
    ActiveBudgets, Dialect,
    gateway::{
        external_refs::{reject_external_refs, reject_price_change, reject_stored},
        json::{is, is_null, members, parse_small, text_bytes},
        model_request::{InvalidRequest, ModelRequest, object, reject_remote_tools},
        provider_error::ProviderError,
        route::{Endpoint, Operation, Route},
    },
};
use hostd_core::{ListedModel, newest_model};
use serde_json::{Value, json, value::RawValue};

pub struct Messages;

impl ApiRules for Messages {
    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn path(&self, operation: Operation, _: &str) -> String {
        match operation {
            Operation::Generate | Operation::Stream => "/messages".to_owned(),
            Operation::Count => "/messages/count_tokens".to_owned(),
        }
    }

    fn parse_request(
        &self,
        endpoint: &Endpoint,
        body: &[u8],
        bounded: ActiveBudgets,
    ) -> Result<ModelRequest, InvalidRequest> {
        if endpoint.count_only() {
            let [model] = object(body, ["model"])?;
            return Ok(ModelRequest::named(body, model)?.counting());
        }
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

    fn read_event(&self, facts: &mut ResponseFacts, data: &[u8]) {
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

    fn read_json(&self, facts: &mut ResponseFacts, body: &[u8]) {
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

    fn final_error_event(&self, message: &str) -> String {
        format!("event: error\ndata: {}\n\n", Anthropic.error_json(500, None, message))
    }
}

pub struct Anthropic;

impl DialectRules for Anthropic {
    fn route(&self, path: &str) -> Option<Route> {
        let call = |operation| Some(Route::Call(Endpoint::new(ModelApi::Messages, operation)));
        match path {
            "v1/messages" => call(Operation::Generate),
            "v1/messages/count_tokens" => call(Operation::Count),
            "v1/models" => Some(Route::Models(Dialect::Anthropic)),
            "api/hello" => Some(Route::Hello(Dialect::Anthropic)),
            _ => None,
        }
    }

    fn default_base_url(&self) -> &'static str {
        "https://api.anthropic.com/v1"
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Named("x-api-key")
    }

    fn forwarded(&self) -> &'static Forwarded {
        &Forwarded {
            request_headers: &["anthropic-version", "anthropic-beta"],
            response_headers: &[],
            response_header_prefixes: &["anthropic-ratelimit-"],
            parameters: &["beta"],
            parameter_values: &[],
        }
    }

    fn error_json(&self, status: u16, _: Option<&str>, message: &str) -> Value {
        json!({"type": "error", "error": {"type": error_kind(status), "message": message}})
    }

    fn model_list(&self) -> &'static ModelListFormat {
        &ModelListFormat {
            query: "limit=1000",
            headers: &[("anthropic-version", "2023-06-01")],
            member: "data",
        }
    }

    fn read_listed_model(&self, entry: &Value) -> Option<ListedModel> {
        let created_at = entry["created_at"].as_str().unwrap_or_default().to_owned();
        Some(ListedModel { name: entry["id"].as_str()?.to_owned(), created_at, no_chat: false })
    }

    fn task_models(&self, names: &[String]) -> Value {
        let model = |name| json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"});
        json!({
            "data": names.iter().map(model).collect::<Vec<_>>(),
            "has_more": false, "first_id": names.first(), "last_id": names.last(),
        })
    }

    fn preferred_model<'a>(&self, models: &'a [ListedModel]) -> Option<&'a ListedModel> {
        newest_model(models, "claude-sonnet-").or_else(|| newest_model(models, "claude-"))
    }
}

/// Later reports are cumulative, and may leave out what earlier ones said.
fn read_usage(facts: &mut ResponseFacts, usage: Option<&RawValue>) {
    let Some(usage) = parse_small(usage) else { return };
    let number = |name: &str| usage.get(name).and_then(Value::as_u64);
    let counts = &mut facts.counts;
    counts.input = number("input_tokens").or(counts.input);
    counts.output = number("output_tokens").or(counts.output);
    counts.cache_read = number("cache_read_input_tokens").unwrap_or(counts.cache_read);
    counts.cache_write = number("cache_creation_input_tokens").unwrap_or(counts.cache_write);
}

fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
