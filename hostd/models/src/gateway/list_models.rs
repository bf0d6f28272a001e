//! Lists the models of a provider, with its key: the operator who adds a provider learns at once whether the
//! key works.

use super::{
    base_url::BaseUrl,
    headers::{is_uncompressed, request_headers},
    limits::{LIST_MAX_BYTES, LIST_MAX_MS, MODELS_MAX},
    provider_client::{ProviderBody, ProviderClient},
    provider_connection::ProviderConnection,
    provider_failure::ProviderFailure,
    serve::Gateway,
};
use crate::{Dialect, Provider, is_model_name};
use bytes::Bytes;
use hostd_core::{FailureKind, ListedModel};
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
        let (query, from) = query_and_headers(provider.dialect);
        let target = base.target("/models", query).map_err(|error| unavailable(error.to_string()))?;
        let headers =
            request_headers(&from, &base.host, provider).map_err(|error| unavailable(error.to_string()))?;
        let failed = |error| list_error(&ProviderFailure::unreachable(name, &error), provider);
        let connection = ProviderConnection::open(&self.connector, &base.origin).await.map_err(failed)?;
        let mut connection = Box::new(connection);
        let response = connection.send(request(target, headers)).await.map_err(failed)?;
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

/// The largest page that the API allows, and the headers that it requires.
fn query_and_headers(dialect: Dialect) -> (&'static str, HeaderMap) {
    let mut headers = HeaderMap::new();
    let query = match dialect {
        Dialect::Anthropic => {
            let version = HeaderName::from_static("anthropic-version");
            headers.insert(version, HeaderValue::from_static("2023-06-01"));
            "limit=1000"
        }
        Dialect::Openai => "",
        Dialect::Gemini => "pageSize=1000",
    };
    (query, headers)
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
    let list = match dialect {
        Dialect::Anthropic | Dialect::Openai => &body["data"],
        Dialect::Gemini => &body["models"],
    };
    let list = list.as_array()?;
    let models = list.iter().filter_map(|entry| read_entry(dialect, entry)).take(MODELS_MAX).collect();
    let more = body["has_more"] == true || body["nextPageToken"].is_string() || list.len() > MODELS_MAX;
    Some(ModelList { models, more })
}

fn read_entry(dialect: Dialect, entry: &Value) -> Option<ListedModel> {
    let (name, created_at, no_chat) = match dialect {
        Dialect::Anthropic => (&entry["id"], entry["created_at"].as_str().unwrap_or_default(), false),
        Dialect::Openai => (&entry["id"], "", false),
        Dialect::Gemini => {
            let methods = entry["supportedGenerationMethods"].as_array();
            let can_chat = methods.is_some_and(|all| all.iter().any(|method| method == "generateContent"));
            (&entry["name"], "", !can_chat)
        }
    };
    let name = name.as_str()?;
    let name = match dialect {
        Dialect::Gemini => name.strip_prefix("models/").unwrap_or(name),
        Dialect::Anthropic | Dialect::Openai => name,
    };
    let created_at = created_at.to_owned();
    is_model_name(name).then(|| ListedModel { name: name.to_owned(), created_at, no_chat })
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
}
