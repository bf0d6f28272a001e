//! Renders an error page as a response: HTML for browsers, JSON for programs.

use super::{csp, html};
use crate::html::wants_html;
use bytes::Bytes;
use hostd_core::{ErrorPage, Previews};
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
/// Header with the error code, which tells our responses from the app's.
const ERROR: HeaderName = HeaderName::from_static("x-slipway-error");

/// The format of an error page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    /// A page may wait and reload only where a reload does no harm: not after a form was sent.
    Html {
        waits: bool,
    },
}

impl Format {
    pub fn of(method: &Method, headers: &HeaderMap) -> Self {
        if wants_html(headers) { Self::Html { waits: method == Method::GET } } else { Self::Json }
    }
}

pub fn render(format: Format, page: &ErrorPage, previews: &Previews) -> Response<Full<Bytes>> {
    let (kind, body) = match format {
        Format::Json => (JSON, serde_json::to_vec(&error(page)).unwrap_or_default()),
        Format::Html { waits } => (HTML, html::page(page, previews, waits).into_bytes()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONTENT_SECURITY_POLICY, csp::header());
    if let Ok(code) = HeaderValue::from_str(&html::code(page.code)) {
        headers.insert(ERROR, code);
    }
    if let Some(seconds) = page.retry_after_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if page.code == ApiErrorCode::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"slipway preview\""));
    }
    response
}

fn error(page: &ErrorPage) -> ApiErrorBody {
    let mut message = format!("{}. {}", page.title, page.text);
    if let Some(advice) = page.advice.first() {
        message = format!("{message} {advice}");
    }
    let error = ApiError::new(page.code, message).with(|detail| {
        detail.listening.clone_from(&page.listening);
        detail.service = page.service.clone().map(Box::new);
        detail.problem = page.problem.clone().map(Box::new);
        detail.post_mortem = page.post_mortem.clone().map(Box::new);
    });
    ApiErrorBody { error }
}

#[cfg(test)]
mod tests;
