//! An explanation as an answer: a page for browsers, JSON for programs.

use super::{html, policy::policy};
use crate::{
    core::{Explanation, Previews},
    html::wants_html,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
        RETRY_AFTER, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
};
use protocol::api::{ApiError, ApiErrorBody, ApiErrorCode};

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
/// The code, for whoever wants to tell our answers from the app's.
const ERROR: HeaderName = HeaderName::from_static("x-slipway-error");

/// Who reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    Program,
    /// A page can only wait where a reload asks the same again without harm: not after a form was sent.
    Browser {
        waits: bool,
    },
}

impl Reader {
    pub fn of(method: &Method, headers: &HeaderMap) -> Self {
        if wants_html(headers) { Self::Browser { waits: method == Method::GET } } else { Self::Program }
    }
}

pub fn answer(reader: Reader, explanation: &Explanation, previews: &Previews) -> Response<Full<Bytes>> {
    let (kind, body) = match reader {
        Reader::Program => (JSON, serde_json::to_vec(&error(explanation)).unwrap_or_default()),
        Reader::Browser { waits } => (HTML, html::page(explanation, previews, waits).into_bytes()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(explanation.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONTENT_SECURITY_POLICY, policy());
    if let Ok(code) = HeaderValue::from_str(&html::code(explanation.code)) {
        headers.insert(ERROR, code);
    }
    if let Some(seconds) = explanation.retry_after_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if explanation.code == ApiErrorCode::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"slipway preview\""));
    }
    response
}

fn error(explanation: &Explanation) -> ApiErrorBody {
    let mut message = format!("{}. {}", explanation.title, explanation.text);
    if let Some(advice) = explanation.advice.first() {
        message = format!("{message} {advice}");
    }
    let error = ApiError::new(explanation.code, message).with(|detail| {
        detail.listening.clone_from(&explanation.listening);
        detail.service = explanation.service.clone().map(Box::new);
        detail.problem.clone_from(&explanation.problem);
        detail.post_mortem = explanation.post_mortem.clone().map(Box::new);
    });
    ApiErrorBody { error }
}

#[cfg(test)]
mod tests;
