//! Lists the models of a provider, with its key: the operator who adds a provider learns at once whether the
//! key works.

use super::{
    base_url::BaseUrl,
    dialect::rules,
    headers::{is_uncompressed, request_headers},
    limits::{LIST_MAX_BYTES, LIST_MAX_MS, MODELS_MAX},
    provider_client::{ProviderBody, ProviderClient},
    provider_connection,
    provider_failure::ProviderFailure,
    serve::Gateway,
};
use crate::{Dialect, Provider, is_model_name};
use bytes::Bytes;
use hostd_core::{FailureKind, ListedModel, choose_default_model};
use http_body_util::Full;
use hyper::{
    HeaderMap, Request, Uri,
    header::{HeaderName, HeaderValue},
};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// The models of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelList {
    pub models: Vec<ListedModel>,
    /// The list is incomplete: the provider has more models.
    pub more: bool,
}

/// Why the models of a provider are unknown: its own message where there is one, without its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListModelsError {
    #[error("{0}")]
    KeyRefused(String),
    /// The provider cannot be reached or does not list its models; its key may work nevertheless.
    #[error("{0}")]
    Unavailable(String),
}

impl ModelList {
    /// The model for tasks that name none: one of `allowed_names`, where there are any.
    pub fn default_model(&self, dialect: Dialect, allowed_names: &[&str]) -> Option<String> {
        choose_default_model(|models| rules(dialect).preferred_model(models), allowed_names, &self.models)
    }
}

impl Gateway {
    /// Asks a provider for its models. Redirects are not followed, since the request carries the key.
    pub async fn list_models(&self, provider: &Provider) -> Result<ModelList, ListModelsError> {
        let waited = Duration::from_millis(LIST_MAX_MS);
        match timeout(waited, self.client().list_models(provider)).await {
            Ok(list) => list,
            Err(_) => Err(list_error(&ProviderFailure::first_byte_timeout(&provider.name, waited), provider)),
        }
    }
}

impl ProviderClient {
    async fn list_models(&self, provider: &Provider) -> Result<ModelList, ListModelsError> {
        let name = provider.name.as_str();
        let unusable = |why: &str| list_error(&ProviderFailure::unusable(name, why), provider);
        let unavailable = |why: String| ListModelsError::Unavailable(format!("the provider {name}: {why}"));
        let base = BaseUrl::parse(&provider.base_url).map_err(|error| unavailable(error.to_string()))?;
        let format = rules(provider.dialect).model_list();
        let fixed = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let from = format.headers.iter().copied().map(fixed).collect();
        let target = base.target("/models", format.query).map_err(|error| unavailable(error.to_string()))?;
        let headers =
            request_headers(&from, &base.host, provider).map_err(|error| unavailable(error.to_string()))?;
        let failed = |error| list_error(&ProviderFailure::unreachable(name, &error), provider);
        let connection = provider_connection::open(&self.connector, &base.origin).await.map_err(failed)?;
        let mut connection = Box::new(connection);
        let response =
            connection.send(request(target, headers)).await.map_err(|error| failed(error.into()))?;
        let (head, incoming) = response.into_parts();
        let mut rest = ProviderBody::new(incoming, connection, base.origin, self.pool.clone());
        let body = if is_uncompressed(&head.headers) { rest.collect(LIST_MAX_BYTES).await } else { None };
        if !head.status.is_success() {
            return Err(list_error(
                &ProviderFailure::error_status(name, head.status, head.headers, body),
                provider,
            ));
        }
        let list = body.as_deref().and_then(|body| read(provider.dialect, body));
        list.ok_or_else(|| unusable("lists its models in an unknown format"))
    }
}

/// Some providers answer a wrong key with 400.
fn list_error(failure: &ProviderFailure, provider: &Provider) -> ListModelsError {
    let key = provider.key.as_ref().map(|key| key.0.as_str());
    let fault = failure.fault(true, 1, key);
    match fault.status {
        Some(401 | 403) => ListModelsError::KeyRefused(fault.message),
        Some(400) if failure.kind == FailureKind::Permanent => ListModelsError::KeyRefused(fault.message),
        _ => ListModelsError::Unavailable(fault.message),
    }
}

fn request(target: Uri, headers: HeaderMap) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    request
}

/// None where the body is not a list of models. Names that no task could use are left out.
fn read(dialect: Dialect, body: &[u8]) -> Option<ModelList> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let rules = rules(dialect);
    let list = body[rules.model_list().member].as_array()?;
    let entries = list.iter().filter_map(|entry| rules.read_listed_model(entry));
    let models = entries.filter(|model| is_model_name(&model.name)).take(MODELS_MAX).collect();
    let more = rules.has_more_models(&body) || list.len() > MODELS_MAX;
    Some(ModelList { models, more })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dialect::{Anthropic, Gemini, Openai};

    fn listed(name: &str, created_at: &str, no_chat: bool) -> ListedModel {
        ListedModel { name: name.to_owned(), created_at: created_at.to_owned(), no_chat }
    }

    #[test]
    fn lists_are_read_in_every_dialect() {
        let table = [
            (
                Anthropic,
                r#"{"data":[{"type":"model","id":"a-1","created_at":"2025-09-29T00:00:00Z"}],"has_more":true}"#,
                ModelList { models: vec![listed("a-1", "2025-09-29T00:00:00Z", false)], more: true },
            ),
            (
                Openai,
                r#"{"object":"list","data":[{"id":"a"},{"id":"b c"},{"id":7},{"id":""},{"id":"d"}]}"#,
                ModelList { models: vec![listed("a", "", false), listed("d", "", false)], more: false },
            ),
            (
                Gemini,
                r#"{"models":[{"name":"models/e","supportedGenerationMethods":["embedContent"]},
                    {"name":"models/g","supportedGenerationMethods":["generateContent"]}],"nextPageToken":"x"}"#,
                ModelList { models: vec![listed("e", "", true), listed("g", "", false)], more: true },
            ),
        ];
        for (dialect, body, expected) in table {
            assert_eq!(read(dialect, body.as_bytes()), Some(expected), "{body}");
        }
    }

    #[test]
    fn other_bodies_are_not_read() {
        for body in ["", "<html>", "[]", "{}", r#"{"data":{"id":"a"}}"#, r#"{"data":[{"id":"a"}]"#] {
            for dialect in Dialect::ALL {
                assert_eq!(read(dialect, body.as_bytes()), None, "{body}");
            }
        }
        let many: Vec<_> = (0..=MODELS_MAX).map(|at| format!(r#"{{"id":"m{at}"}}"#)).collect();
        let long = read(Openai, format!(r#"{{"data":[{}]}}"#, many.join(",")).as_bytes()).expect("a list");
        assert_eq!((long.models.len(), long.more), (MODELS_MAX, true));
    }

    /// Written `name@created`, with a `!` before one that cannot chat.
    fn models(names: &[&str]) -> Vec<ListedModel> {
        let one = |text: &&str| {
            let (name, created) = text.split_once('@').unwrap_or((text, ""));
            let (name, no_chat) = name.strip_prefix('!').map_or((name, false), |name| (name, true));
            ListedModel { name: name.to_owned(), created_at: created.to_owned(), no_chat }
        };
        names.iter().map(one).collect()
    }

    #[test]
    fn a_default_is_chosen_by_how_vendors_name_their_models() {
        let table: [(Dialect, &[&str], Option<&str>); 17] = [
            (Anthropic, &[], None),
            (
                Anthropic,
                &["claude-opus-4-5@2025-11", "claude-sonnet-4@2025-05", "claude-sonnet-4-5@2025-09"],
                Some("claude-sonnet-4-5"),
            ),
            (Anthropic, &["claude-sonnet-5", "claude-sonnet-4-5"], Some("claude-sonnet-5")),
            (Anthropic, &["other", "claude-3-haiku@2024", "claude-opus-4@2025"], Some("claude-opus-4")),
            (Anthropic, &["other", "another@2025"], Some("other")),
            (Openai, &["gpt-4.1", "gpt-5", "gpt-5-codex", "gpt-5-mini"], Some("gpt-5-codex")),
            (Openai, &["gpt-5-codex", "gpt-5.1", "gpt-4o"], Some("gpt-5.1")),
            (Openai, &["gpt-5.2", "gpt-5.10"], Some("gpt-5.10")),
            (
                Openai,
                &[
                    "gpt-9-mini",
                    "gpt-9-nano",
                    "gpt-9-audio",
                    "gpt-9-realtime",
                    "gpt-image-9",
                    "gpt-9-search-api",
                    "gpt-9-preview",
                    "gpt-9-2026-01-01",
                    "gpt-9-codex-mini",
                    "gpt-+9",
                    "gpt-9.",
                    "gpt-4",
                ],
                Some("gpt-4"),
            ),
            (Openai, &["text-embedding-3-large", "llama3:8b", "qwen"], Some("llama3:8b")),
            (Openai, &["text-embedding-3-large", "whisper-1"], None),
            (Gemini, &["gemini-2.5-pro", "gemini-3-pro", "gemini-2.5-flash"], Some("gemini-3-pro")),
            (Gemini, &["gemini-3-pro-preview", "gemini-2.5-pro"], Some("gemini-2.5-pro")),
            (Gemini, &["!gemini-3-pro", "gemini-2.5-pro"], Some("gemini-2.5-pro")),
            (Gemini, &["gemini-9-pro-exp", "gemini-pro-vision", "gemini-1.5-pro"], Some("gemini-1.5-pro")),
            (Gemini, &["!embedding-001", "gemini-2.5-flash"], Some("gemini-2.5-flash")),
            (Gemini, &["!embedding-001"], None),
        ];
        for (dialect, names, expected) in table {
            let list = ModelList { models: models(names), more: false };
            assert_eq!(list.default_model(dialect, &[]).as_deref(), expected, "{names:?}");
        }
    }
}
