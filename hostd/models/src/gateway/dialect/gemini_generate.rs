//! Gemini's generateContent. A streamed response comes as events, or as one JSON list that grows.

use super::{ApiRules, DialectRules, Forwarded, KeyHeader, ModelApi, ModelListFormat, ResponseFacts};
use crate::{
    ActiveBudgets, Dialect,
    gateway::{
        external_refs::{reject_external_refs, reject_stored},
        json::{is_null, members, parse_small, span, text_bytes},
        model_request::{
            InvalidRequest, ModelRequest, insert_point, object, reject_multiple_answers, reject_service_tier,
        },
        provider_error::ProviderError,
        route::{Endpoint, Operation, Route, escaped, is_safe_name},
    },
};
use hostd_core::{ListedModel, highest_model, model_version};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

pub struct Generate;

impl ApiRules for Generate {
    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    fn path(&self, operation: Operation, model: &str) -> String {
        format!("/models/{}:{}", escaped(model), method(operation))
    }

    fn parse_request(
        &self,
        endpoint: &Endpoint,
        body: &[u8],
        bounded: ActiveBudgets,
    ) -> Result<ModelRequest, InvalidRequest> {
        let [camel, snake] = object(body, ["generationConfig", "generation_config"])?;
        if camel.is_some() && snake.is_some() {
            return Err(InvalidRequest::DuplicateConfig);
        }
        let model = endpoint.model.clone().ok_or(InvalidRequest::NoModel)?;
        let mut request = ModelRequest::of(model, body);
        request.params.streams = endpoint.operation == Operation::Stream;
        if endpoint.count_only() {
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

    fn read_event(&self, facts: &mut ResponseFacts, data: &[u8]) {
        read_chunk(facts, data);
    }

    fn read_json(&self, facts: &mut ResponseFacts, body: &[u8]) {
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

    fn final_error_event(&self, message: &str) -> String {
        format!("data: {}\n\n", Gemini.error_json(500, None, message))
    }
}

pub struct Gemini;

impl DialectRules for Gemini {
    fn route(&self, path: &str) -> Option<Route> {
        let rest = path.strip_prefix("v1beta/models/").or_else(|| path.strip_prefix("v1/models/"))?;
        let (model, name) = rest.rsplit_once(':')?;
        let operation = Operation::ALL.into_iter().find(|operation| method(*operation) == name)?;
        let endpoint = Endpoint::new(ModelApi::Generate, operation);
        is_safe_name(model).then(|| Route::Call(Endpoint { model: Some(model.to_owned()), ..endpoint }))
    }

    fn default_base_url(&self) -> &'static str {
        "https://generativelanguage.googleapis.com/v1beta"
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Named("x-goog-api-key")
    }

    fn forwarded(&self) -> &'static Forwarded {
        &Forwarded {
            request_headers: &["x-goog-api-client"],
            response_headers: &[],
            response_header_prefixes: &[],
            parameters: &[],
            // The one format of streams that can be inspected.
            parameter_values: &["alt=sse", "$alt=sse"],
        }
    }

    fn error_json(&self, status: u16, _: Option<&str>, message: &str) -> Value {
        json!({"error": {"code": status, "message": message, "status": error_kind(status)}})
    }

    /// Reads `"retryDelay": "34s"`.
    fn retry_delay<'a>(&self, error: &'a str) -> Option<&'a str> {
        let (_, rest) = error.split_once("\"retryDelay\"")?;
        let text = rest.trim_start_matches([':', ' ', '"', '\n']);
        Some(text.split_once("s\"")?.0)
    }

    fn model_list(&self) -> &'static ModelListFormat {
        &ModelListFormat { query: "pageSize=1000", headers: &[], member: "models" }
    }

    fn read_listed_model(&self, entry: &Value) -> Option<ListedModel> {
        let methods = entry["supportedGenerationMethods"].as_array();
        let can_chat = methods.is_some_and(|all| all.iter().any(|method| method == "generateContent"));
        let name = entry["name"].as_str()?;
        let name = name.strip_prefix("models/").unwrap_or(name).to_owned();
        Some(ListedModel { name, created_at: String::new(), no_chat: !can_chat })
    }

    fn has_more_models(&self, list: &Value) -> bool {
        list["nextPageToken"].is_string()
    }

    /// Agents of this dialect do not list models, so it has no route for them.
    fn task_models(&self, names: &[String]) -> Value {
        let model = |name: &String| json!({"name": format!("models/{name}")});
        json!({"models": names.iter().map(model).collect::<Vec<_>>()})
    }

    fn preferred_model<'a>(&self, models: &'a [ListedModel]) -> Option<&'a ListedModel> {
        highest_model(models, gemini_pro)
    }
}

/// The name of an operation in a path.
fn method(operation: Operation) -> &'static str {
    match operation {
        Operation::Generate => "generateContent",
        Operation::Stream => "streamGenerateContent",
        Operation::Count => "countTokens",
    }
}

/// Ranks names such as `gemini-2.5-pro`.
fn gemini_pro(name: &str) -> Option<(u32, u32)> {
    model_version(name.strip_prefix("gemini-")?.strip_suffix("-pro")?)
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
    let number = |name: &str| usage.get(name).and_then(Value::as_u64);
    let Some(prompt) = number("promptTokenCount") else { return };
    let counts = &mut facts.counts;
    let input = prompt.saturating_add(number("toolUsePromptTokenCount").unwrap_or(0));
    counts.cache_read = number("cachedContentTokenCount").unwrap_or(0).min(input);
    counts.input = Some(input - counts.cache_read);
    counts.reasoning = number("thoughtsTokenCount").unwrap_or(0);
    let candidates = number("candidatesTokenCount").unwrap_or(0);
    counts.output = Some(candidates.saturating_add(counts.reasoning));
}

fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 | 405 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        502 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}
