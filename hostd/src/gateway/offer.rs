//! What a provider says it has, asked with its key: whoever gave the key hears at once whether it is good.

use super::{
    attempt::{Rest, World},
    failure::Failure,
    headers::{is_plain, outgoing},
    limits::{LIST_MAX_BYTES, LIST_MAX_MS, OFFERED_MAX},
    line::Line,
    origin::Base,
    serve::Gateway,
};
use crate::{
    core::{Nature, Offered},
    models::{Dialect, Provider, is_model_name},
};
use bytes::Bytes;
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
pub struct Offer {
    pub models: Vec<Offered>,
    /// There are more than it told at once.
    pub more: bool,
}

/// Why it is not known what a provider has. In its words where it said something, without its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOffer {
    /// It does not want whoever has this key.
    #[error("{0}")]
    Refused(String),
    /// It cannot be asked, or does not tell. It may be good all the same.
    #[error("{0}")]
    Untold(String),
}

impl Gateway {
    /// Asks a provider which models it has. It gets its key, and is followed nowhere else.
    pub async fn offer(&self, provider: &Provider) -> Result<Offer, NoOffer> {
        let waited = Duration::from_millis(LIST_MAX_MS);
        match timeout(waited, self.world().offer(provider)).await {
            Ok(offer) => offer,
            Err(_) => Err(no_offer(&Failure::slow(&provider.name, waited), provider)),
        }
    }
}

impl World {
    async fn offer(&self, provider: &Provider) -> Result<Offer, NoOffer> {
        let name = provider.name.as_str();
        let useless = |why: &str| no_offer(&Failure::useless(name, why), provider);
        let unsaid = |why: String| NoOffer::Untold(format!("the provider {name}: {why}"));
        let base = Base::parse(&provider.base_url).map_err(|error| unsaid(error.to_string()))?;
        let (query, from) = asked(provider.dialect);
        let target = base.target("/models", query).map_err(|error| unsaid(error.to_string()))?;
        let headers = outgoing(&from, &base.host, provider).map_err(|error| unsaid(error.to_string()))?;
        let failed = |error| no_offer(&Failure::unreachable(name, &error), provider);
        let mut line = Box::new(Line::open(&self.outside, &base.origin).await.map_err(failed)?);
        let response = line.send(request(target, headers)).await.map_err(failed)?;
        let (head, incoming) = response.into_parts();
        let mut rest = Rest::new(incoming, line, base.origin, self.lines.clone());
        let body = if is_plain(&head.headers) { rest.whole(LIST_MAX_BYTES).await } else { None };
        if !head.status.is_success() {
            return Err(no_offer(&Failure::answered(name, head.status, head.headers, body), provider));
        }
        let offer = body.as_deref().and_then(|body| read(provider.dialect, body));
        offer.ok_or_else(|| useless("does not list its models in a way that is understood"))
    }
}

/// Some say with 400 that a key is wrong.
fn no_offer(failure: &Failure, provider: &Provider) -> NoOffer {
    let key = provider.key.as_ref().map(|key| key.0.as_str());
    let fault = failure.fault(true, 1, key);
    match fault.status {
        Some(401 | 403) => NoOffer::Refused(fault.message),
        Some(400) if failure.nature == Nature::Permanent => NoOffer::Refused(fault.message),
        _ => NoOffer::Untold(fault.message),
    }
}

/// As many at once as the API allows, and what it wants to be told.
fn asked(dialect: Dialect) -> (&'static str, HeaderMap) {
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

/// None where it is no list of models. Names that no task could use are left out.
fn read(dialect: Dialect, body: &[u8]) -> Option<Offer> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let list = match dialect {
        Dialect::Anthropic | Dialect::Openai => &body["data"],
        Dialect::Gemini => &body["models"],
    };
    let list = list.as_array()?;
    let models = list.iter().filter_map(|entry| one(dialect, entry)).take(OFFERED_MAX).collect();
    let more = body["has_more"] == true || body["nextPageToken"].is_string() || list.len() > OFFERED_MAX;
    Some(Offer { models, more })
}

fn one(dialect: Dialect, entry: &Value) -> Option<Offered> {
    let (name, created_at, mute) = match dialect {
        Dialect::Anthropic => (&entry["id"], entry["created_at"].as_str().unwrap_or_default(), false),
        Dialect::Openai => (&entry["id"], "", false),
        Dialect::Gemini => {
            let methods = entry["supportedGenerationMethods"].as_array();
            let talks = methods.is_some_and(|all| all.iter().any(|method| method == "generateContent"));
            (&entry["name"], "", !talks)
        }
    };
    let name = name.as_str()?;
    let name = match dialect {
        Dialect::Gemini => name.strip_prefix("models/").unwrap_or(name),
        Dialect::Anthropic | Dialect::Openai => name,
    };
    let created_at = created_at.to_owned();
    is_model_name(name).then(|| Offered { name: name.to_owned(), created_at, mute })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dialect::{Anthropic, Gemini, Openai};

    fn offered(name: &str, created_at: &str, mute: bool) -> Offered {
        Offered { name: name.to_owned(), created_at: created_at.to_owned(), mute }
    }

    #[test]
    fn lists_are_read_in_every_dialect() {
        let table = [
            (
                Anthropic,
                r#"{"data":[{"type":"model","id":"a-1","created_at":"2025-09-29T00:00:00Z"}],"has_more":true}"#,
                Offer { models: vec![offered("a-1", "2025-09-29T00:00:00Z", false)], more: true },
            ),
            (
                Openai,
                r#"{"object":"list","data":[{"id":"a"},{"id":"b c"},{"id":7},{"id":""},{"id":"d"}]}"#,
                Offer { models: vec![offered("a", "", false), offered("d", "", false)], more: false },
            ),
            (
                Gemini,
                r#"{"models":[{"name":"models/e","supportedGenerationMethods":["embedContent"]},
                    {"name":"models/g","supportedGenerationMethods":["generateContent"]}],"nextPageToken":"x"}"#,
                Offer { models: vec![offered("e", "", true), offered("g", "", false)], more: true },
            ),
        ];
        for (dialect, body, expected) in table {
            assert_eq!(read(dialect, body.as_bytes()), Some(expected), "{body}");
        }
    }

    #[test]
    fn what_is_no_list_is_not_read() {
        for body in ["", "<html>", "[]", "{}", r#"{"data":{"id":"a"}}"#, r#"{"data":[{"id":"a"}]"#] {
            for dialect in Dialect::ALL {
                assert_eq!(read(dialect, body.as_bytes()), None, "{body}");
            }
        }
        let many: Vec<_> = (0..=OFFERED_MAX).map(|at| format!(r#"{{"id":"m{at}"}}"#)).collect();
        let long = read(Openai, format!(r#"{{"data":[{}]}}"#, many.join(",")).as_bytes()).expect("a list");
        assert_eq!((long.models.len(), long.more), (OFFERED_MAX, true));
    }
}
