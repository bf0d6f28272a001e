//! A failed attempt: its kind for the retry decision, its fault for the record, and the response for the
//! agent, in the provider's own words without its key.

use super::{
    dialect::{all_rules, error_response},
    headers::response_headers,
    limits::ERROR_MAX_BYTES,
    provider_connection::ConnectionError,
    provider_error::ProviderError,
    redact_key::{redact, redacted_line},
    refusal::GatewayRefusal,
};
use crate::{Dialect, Fault};
use axum::body::Body;
use bytes::Bytes;
use hostd_core::{FailureKind, classify_status};
use hyper::{HeaderMap, Response, StatusCode};
use std::time::{Duration, SystemTime};

pub struct ProviderFailure {
    pub status: Option<StatusCode>,
    pub kind: FailureKind,
    headers: HeaderMap,
    /// The body as it came; none where it is too long, compressed or absent.
    body: Option<Bytes>,
    /// May contain the key.
    message: String,
    timed_out: bool,
}

impl ProviderFailure {
    /// No connection, or no response on it.
    pub fn unreachable(provider: &str, error: &ConnectionError) -> Self {
        let message = match error {
            ConnectionError::OutboundConnector(_) => {
                format!("the provider {provider} is unreachable: {error}")
            }
            ConnectionError::Exchange(_) => {
                format!("no response from the provider {provider}: {error}")
            }
        };
        Self::without_response(FailureKind::Transient, message)
    }

    /// The response ended before its first byte.
    pub fn empty(provider: &str) -> Self {
        Self::without_response(
            FailureKind::Transient,
            format!("the provider {provider} broke off before its first byte"),
        )
    }

    pub fn first_byte_timeout(provider: &str, waited: Duration) -> Self {
        let message =
            format!("the provider {provider} did not begin its response within {} s", waited.as_secs());
        // The timeout is long, so it is not waited for twice.
        Self { timed_out: true, ..Self::without_response(FailureKind::Permanent, message) }
    }

    /// Every response of this provider is unusable, for this reason.
    pub fn unusable(provider: &str, why: &str) -> Self {
        Self::without_response(FailureKind::Permanent, format!("the provider {provider} {why}"))
    }

    fn without_response(kind: FailureKind, message: String) -> Self {
        Self { status: None, kind, headers: HeaderMap::new(), body: None, message, timed_out: false }
    }

    /// A status other than success. `body` is none where it was too long to be read.
    pub fn error_status(provider: &str, status: StatusCode, headers: HeaderMap, body: Option<Bytes>) -> Self {
        let text = body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let message = match body.as_deref().and_then(ProviderError::parse_body) {
            Some(error) => error.message,
            None if status.is_redirection() => {
                format!(
                    "the provider {provider} redirects ({status}), which is not followed; check its base URL"
                )
            }
            None if text.trim().is_empty() => format!("the provider {provider} answered {status}"),
            None => format!("the provider {provider} answered {status}: {}", text.trim()),
        };
        let kind = classify_status(Some(status.as_u16()), &text);
        let body = body.filter(|body| body.len() <= ERROR_MAX_BYTES);
        Self { status: Some(status), kind, headers, body, message, timed_out: false }
    }

    /// An error in the body of a response whose status was a success.
    pub fn in_response(status: StatusCode, kind: FailureKind, message: String) -> Self {
        Self { status: Some(status), ..Self::without_response(kind, message) }
    }

    /// How long the provider asks to wait before a retry.
    pub fn retry_after_ms(&self, now: SystemTime) -> Option<u64> {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let parse = |text: &str| parse_retry_after(text, now);
        let ms = header("retry-after-ms").and_then(|text| text.trim().parse().ok());
        ms.or_else(|| header("retry-after").and_then(parse)).or_else(|| {
            let body = std::str::from_utf8(self.body.as_deref()?).ok()?;
            all_rules().find_map(|rules| rules.retry_delay(body)).and_then(parse)
        })
    }

    pub fn fault(&self, permanent: bool, attempts: u32, key: Option<&str>) -> Fault {
        let mut message = redacted_line(&self.message, key);
        if attempts > 1 {
            message = format!("{message} (after {attempts} tries)");
        }
        Fault { status: self.status.map(|status| status.as_u16()), message, permanent }
    }

    /// The response for the agent.
    pub fn response(&self, dialect: Dialect, key: Option<&str>) -> Response<Body> {
        let message = redacted_line(&self.message, key);
        let Some(status) = self.status.filter(|status| status.is_client_error() || status.is_server_error())
        else {
            let refusal = if self.timed_out {
                GatewayRefusal::ProviderTimeout(message)
            } else {
                GatewayRefusal::Provider(message)
            };
            return refusal.response(dialect);
        };
        let Some(text) = self.body.as_deref().and_then(|body| std::str::from_utf8(body).ok()) else {
            return error_response(dialect, status, None, &message);
        };
        let mut response = Response::new(Body::from(redact(text, key)));
        *response.status_mut() = status;
        *response.headers_mut() = response_headers(&self.headers, key);
        response
    }
}

/// Parses `Retry-After`: seconds, or a date.
fn parse_retry_after(text: &str, now: SystemTime) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        let wait = Duration::try_from_secs_f64(seconds).ok()?;
        return u64::try_from(wait.as_millis()).ok();
    }
    let then = httpdate::parse_http_date(text).ok()?;
    let wait = then.duration_since(now).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-real-0123456789";

    fn failure(status: u16, headers: &[(&'static str, &str)], body: &str) -> ProviderFailure {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (hyper::header::HeaderName::from_static(name), value.parse().expect("a value"))
            })
            .collect();
        let status = StatusCode::from_u16(status).expect("a status");
        ProviderFailure::error_status("p", status, headers, Some(Bytes::copy_from_slice(body.as_bytes())))
    }

    type Headers<'a> = &'a [(&'static str, &'a str)];

    #[test]
    fn retry_after_is_read() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let table: [(Headers<'_>, &str, Option<u64>); 9] = [
            (&[], "", None),
            (&[("retry-after", "2")], "", Some(2_000)),
            (&[("retry-after", "1.5")], "", Some(1_500)),
            (&[("retry-after-ms", "70"), ("retry-after", "2")], "", Some(70)),
            (&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], "", Some(30_000)),
            (&[("retry-after", "Sat, 06 Nov 1993 08:50:07 GMT")], "", Some(0)),
            (&[("retry-after", "-1")], "", None),
            (&[("retry-after", "soon")], "", None),
            (&[], r#"{"details":[{"retryDelay": "34.07s"}]}"#, Some(34_070)),
        ];
        for (headers, body, expected) in table {
            assert_eq!(failure(429, headers, body).retry_after_ms(now), expected, "{headers:?} {body}");
        }
    }

    #[test]
    fn a_fault_has_the_words_of_the_provider_and_not_its_key() {
        let body = format!(r#"{{"error":{{"type":"authentication_error","message":"bad\n key {KEY}"}}}}"#);
        let fault = failure(401, &[], &body).fault(true, 1, Some(KEY));
        let expected = Fault { status: Some(401), message: "bad key [key]".to_owned(), permanent: true };
        assert_eq!(fault, expected);
        let fault = failure(503, &[], "<html>down</html>").fault(true, 4, None);
        assert_eq!(
            fault.message,
            "the provider p answered 503 Service Unavailable: <html>down</html> (after 4 tries)"
        );
        let fault = failure(302, &[("location", "http://elsewhere")], "").fault(true, 1, None);
        assert!(fault.message.contains("redirects (302 Found)"), "{}", fault.message);
    }
}
