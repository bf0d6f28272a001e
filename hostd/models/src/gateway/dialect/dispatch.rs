//! Hands requests and responses to the file of their dialect.

use super::{
    anthropic_messages, gemini_generate, openai_chat, openai_responses, response_facts::ResponseFacts,
};
use crate::{
    ActiveBudgets, ModelApi,
    gateway::{
        model_request::{InvalidRequest, ModelRequest},
        provider_error::ProviderError,
        route::Endpoint,
        sse_reader::SseEvent,
    },
};

/// Reads a request before it is forwarded. What a budget bounds must be visible in the request, so a request
/// whose size or price cannot be known is refused.
pub fn parse_request(
    endpoint: &Endpoint,
    body: &[u8],
    bounded: ActiveBudgets,
) -> Result<ModelRequest, InvalidRequest> {
    match endpoint {
        Endpoint::Messages => anthropic_messages::parse_request(body, bounded),
        Endpoint::CountTokens => anthropic_messages::parse_count_request(body),
        Endpoint::Chat => openai_chat::parse_request(body, bounded),
        Endpoint::Responses => openai_responses::parse_request(body, bounded),
        Endpoint::Generate { model, method } => gemini_generate::parse_request(body, model, *method, bounded),
    }
}

/// Reads one event of a streamed response.
pub fn read_event(api: ModelApi, facts: &mut ResponseFacts, event: &SseEvent<'_>) {
    match api {
        ModelApi::Messages => anthropic_messages::read_event(facts, event.data),
        ModelApi::Chat => openai_chat::read_event(facts, event.data),
        ModelApi::Responses => openai_responses::read_event(facts, event.data),
        ModelApi::Generate => gemini_generate::read_event(facts, event.data),
    }
    if event.is_error && facts.error.is_none() {
        let message = String::from_utf8_lossy(event.data).into_owned();
        facts.record_error(Some(ProviderError { message, kind: String::new() }));
    }
}

/// Reads a response that came as one JSON document.
pub fn read_json(api: ModelApi, facts: &mut ResponseFacts, body: &[u8]) {
    match api {
        ModelApi::Messages => anthropic_messages::read_json(facts, body),
        ModelApi::Chat => openai_chat::read_json(facts, body),
        ModelApi::Responses => openai_responses::read_json(facts, body),
        ModelApi::Generate => gemini_generate::read_json(facts, body),
    }
}
