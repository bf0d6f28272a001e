//! The headers of a call, read before its messages.

use super::{Code, ConnectError, limits};
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName},
};
use std::time::Duration;

const VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
const TIMEOUT: HeaderName = HeaderName::from_static("connect-timeout-ms");
const STREAM_ENCODING: HeaderName = HeaderName::from_static("connect-content-encoding");
const KEEPALIVE: HeaderName = HeaderName::from_static("keepalive-ping-interval");

/// How messages of a method flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Unary,
    ServerStream,
    ClientStream,
}

impl CallKind {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Unary => "application/json",
            Self::ServerStream | Self::ClientStream => "application/connect+json",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// How long the client waits for the end of the call.
    pub timeout: Option<Duration>,
    /// How often a silent stream shows that it lives.
    pub keepalive: Option<Duration>,
}

impl CallOptions {
    /// Reads the headers. `Err` with a status where the request is not one of this protocol at all.
    pub fn parse(kind: CallKind, headers: &HeaderMap) -> Result<Self, Result<ConnectError, StatusCode>> {
        let content_type = text(headers, &CONTENT_TYPE).unwrap_or_default();
        let media = content_type.split(';').next().unwrap_or_default().trim();
        if !media.eq_ignore_ascii_case(kind.content_type()) {
            return Err(Err(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        Self::parse_rest(kind, headers).map_err(Ok)
    }

    fn parse_rest(kind: CallKind, headers: &HeaderMap) -> Result<Self, ConnectError> {
        let encoding = match kind {
            CallKind::Unary => CONTENT_ENCODING,
            CallKind::ServerStream | CallKind::ClientStream => STREAM_ENCODING,
        };
        if let Some(encoding) = text(headers, &encoding)
            && !encoding.eq_ignore_ascii_case("identity")
        {
            let message = format!("unknown compression {encoding:?}: supported is identity");
            return Err(ConnectError::new(Code::Unimplemented, message));
        }
        if let Some(version) = headers.get(VERSION)
            && version.as_bytes() != b"1"
        {
            return Err(ConnectError::invalid("Connect-Protocol-Version must be 1"));
        }
        Ok(Self { timeout: timeout(headers)?, keepalive: keepalive(headers) })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, ConnectError> {
    let Some(digits) = text(headers, &TIMEOUT) else { return Ok(None) };
    let valid =
        digits.len() <= limits::TIMEOUT_MAX_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let ms: Option<u64> = digits.parse().ok().filter(|_| valid);
    let ms = ms.ok_or_else(|| ConnectError::invalid("Connect-Timeout-Ms must be at most 10 digits"))?;
    Ok(Some(Duration::from_millis(ms)))
}

/// A value that is no number of seconds is ignored: without it streams have no keepalives.
fn keepalive(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = text(headers, &KEEPALIVE)?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.clamp(limits::KEEPALIVE_MIN_S, limits::KEEPALIVE_MAX_S)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    type Headers = [(&'static str, &'static str)];

    fn parse(kind: CallKind, pairs: &Headers) -> Result<CallOptions, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        CallOptions::parse(kind, &headers).map_err(|refused| match refused {
            Ok(error) => error.code.name().to_owned(),
            Err(status) => status.as_u16().to_string(),
        })
    }

    #[test]
    fn a_call_is_refused_by_its_headers() {
        let json = ("content-type", "application/json");
        let stream = ("content-type", "application/connect+json");
        let table: &[(CallKind, &Headers, &str)] = &[
            (CallKind::Unary, &[], "415"),
            (CallKind::Unary, &[stream], "415"),
            (CallKind::Unary, &[("content-type", "application/proto")], "415"),
            (CallKind::ServerStream, &[json], "415"),
            (CallKind::ClientStream, &[("content-type", "application/connect+proto")], "415"),
            (CallKind::Unary, &[json, ("content-encoding", "gzip")], "unimplemented"),
            (CallKind::ServerStream, &[stream, ("connect-content-encoding", "gzip")], "unimplemented"),
            (CallKind::Unary, &[json, ("connect-protocol-version", "2")], "invalid_argument"),
            (CallKind::Unary, &[json, ("connect-timeout-ms", "-1")], "invalid_argument"),
            (CallKind::Unary, &[json, ("connect-timeout-ms", "")], "invalid_argument"),
            (CallKind::Unary, &[json, ("connect-timeout-ms", "12345678901")], "invalid_argument"),
        ];
        for (kind, headers, expected) in table {
            assert_eq!(parse(*kind, headers).unwrap_err(), *expected, "{headers:?}");
        }
    }

    #[test]
    fn times_are_read_from_headers() {
        let headers = [
            ("content-type", "application/connect+json; charset=utf-8"),
            ("connect-protocol-version", "1"),
            ("connect-content-encoding", "identity"),
            ("connect-timeout-ms", "1500"),
            ("keepalive-ping-interval", "50"),
        ];
        let expected = CallOptions {
            timeout: Some(Duration::from_millis(1500)),
            keepalive: Some(Duration::from_secs(50)),
        };
        assert_eq!(parse(CallKind::ServerStream, &headers), Ok(expected));
        let wrong = [headers[0], ("keepalive-ping-interval", "soon")];
        assert_eq!(parse(CallKind::ServerStream, &wrong), Ok(CallOptions::default()));
    }
}
