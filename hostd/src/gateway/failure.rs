//! What a provider answered, or did not, when it gave no answer that can be passed on: read, judged, and told to
//! the agent in the provider's own words, without its key.

use super::{
    headers::answered,
    limits::ERROR_MAX_BYTES,
    line::LineError,
    refusal::{Refusal, error_response},
    scrub::{scrubbed, words},
    told::error_words,
};
use crate::{
    core::{Nature, nature},
    models::{Dialect, Fault},
};
use axum::body::Body;
use bytes::Bytes;
use hyper::{HeaderMap, Response, StatusCode};
use std::time::{Duration, SystemTime};

pub struct Failure {
    pub status: Option<StatusCode>,
    pub nature: Nature,
    headers: HeaderMap,
    /// As it came. None where it is not to be shown: too long, compressed, or not there.
    body: Option<Bytes>,
    /// Not scrubbed yet.
    words: String,
    slow: bool,
}

impl Failure {
    /// It could not be asked, or said nothing.
    pub fn unreachable(provider: &str, error: &LineError) -> Self {
        let said = match error {
            LineError::Outside(_) => format!("the provider {provider} is unreachable: {error}"),
            LineError::Http(_) | LineError::Closed => {
                format!("no answer from the provider {provider}: {error}")
            }
        };
        Self::silent(Nature::Passing, said)
    }

    /// It ended before it had begun.
    pub fn empty(provider: &str) -> Self {
        Self::silent(Nature::Passing, format!("the provider {provider} broke off before its first byte"))
    }

    pub fn slow(provider: &str, waited: Duration) -> Self {
        let said = format!("the provider {provider} did not begin its answer within {} s", waited.as_secs());
        // Whoever waits so long once does not wait again.
        Self { slow: true, ..Self::silent(Nature::Permanent, said) }
    }

    /// Something about it makes every answer useless.
    pub fn useless(provider: &str, why: &str) -> Self {
        Self::silent(Nature::Permanent, format!("the provider {provider} {why}"))
    }

    fn silent(nature: Nature, words: String) -> Self {
        Self { status: None, nature, headers: HeaderMap::new(), body: None, words, slow: false }
    }

    /// It answered with something else than success. `body` is as much of it as was read.
    pub fn answered(provider: &str, status: StatusCode, headers: HeaderMap, body: Option<Bytes>) -> Self {
        let text = body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let said = match body.as_deref().and_then(error_words) {
            Some((words, _)) => words,
            None if status.is_redirection() => {
                format!(
                    "the provider {provider} sends elsewhere ({status}), which is not followed; look at its base URL"
                )
            }
            None if text.trim().is_empty() => format!("the provider {provider} answered {status}"),
            None => format!("the provider {provider} answered {status}: {}", text.trim()),
        };
        let nature = nature(Some(status.as_u16()), &text);
        let body = body.filter(|body| body.len() <= ERROR_MAX_BYTES);
        Self { status: Some(status), nature, headers, body, words: said, slow: false }
    }

    /// An error that came as an answer that had begun well.
    pub fn within(status: StatusCode, nature: Nature, words: String) -> Self {
        Self { status: Some(status), ..Self::silent(nature, words) }
    }

    /// How long it asks to wait.
    pub fn told_wait_ms(&self, now: SystemTime) -> Option<u64> {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let told = |text: &str| wait_ms(text, now);
        let ms = header("retry-after-ms").and_then(|text| text.trim().parse().ok());
        ms.or_else(|| header("retry-after").and_then(told)).or_else(|| {
            // Gemini: `"retryDelay": "34s"`.
            let body = std::str::from_utf8(self.body.as_deref()?).ok()?;
            let (_, rest) = body.split_once("\"retryDelay\"")?;
            let text = rest.trim_start_matches([':', ' ', '"', '\n']);
            told(text.split_once("s\"")?.0)
        })
    }

    pub fn fault(&self, permanent: bool, tries: u32, key: Option<&str>) -> Fault {
        let mut message = words(&self.words, key);
        if tries > 1 {
            message = format!("{message} (after {tries} tries)");
        }
        Fault { status: self.status.map(|status| status.as_u16()), message, permanent }
    }

    /// For the agent.
    pub fn response(&self, dialect: Dialect, key: Option<&str>) -> Response<Body> {
        let said = words(&self.words, key);
        let Some(status) = self.status.filter(|status| status.is_client_error() || status.is_server_error())
        else {
            let refusal = if self.slow { Refusal::ProviderSlow(said) } else { Refusal::Provider(said) };
            return refusal.response(dialect);
        };
        let Some(text) = self.body.as_deref().and_then(|body| std::str::from_utf8(body).ok()) else {
            return error_response(dialect, status, None, &said);
        };
        let mut response = Response::new(Body::from(scrubbed(text, key)));
        *response.status_mut() = status;
        *response.headers_mut() = answered(&self.headers, key);
        response
    }
}

/// Seconds, or a date.
fn wait_ms(text: &str, now: SystemTime) -> Option<u64> {
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

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Failure {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (hyper::header::HeaderName::from_static(name), value.parse().expect("a value"))
            })
            .collect();
        let status = StatusCode::from_u16(status).expect("a status");
        Failure::answered("p", status, headers, Some(Bytes::copy_from_slice(body.as_bytes())))
    }

    type Headers<'a> = &'a [(&'static str, &'a str)];

    #[test]
    fn what_is_told_to_wait_is_read() {
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
            assert_eq!(answer(429, headers, body).told_wait_ms(now), expected, "{headers:?} {body}");
        }
    }

    #[test]
    fn a_fault_has_the_words_of_the_provider_and_not_its_key() {
        let body = format!(r#"{{"error":{{"type":"authentication_error","message":"bad\n key {KEY}"}}}}"#);
        let fault = answer(401, &[], &body).fault(true, 1, Some(KEY));
        let expected = Fault { status: Some(401), message: "bad key [key]".to_owned(), permanent: true };
        assert_eq!(fault, expected);
        let fault = answer(503, &[], "<html>down</html>").fault(true, 4, None);
        assert_eq!(
            fault.message,
            "the provider p answered 503 Service Unavailable: <html>down</html> (after 4 tries)"
        );
        let fault = answer(302, &[("location", "http://elsewhere")], "").fault(true, 1, None);
        assert!(fault.message.contains("sends elsewhere (302 Found)"), "{}", fault.message);
    }
}
