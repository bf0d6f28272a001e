//! Which headers pass the gateway: those that are named here. Pure.

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{
    HeaderMap,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING,
        CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT,
    },
};

const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

/// Forwarded to the server.
const REQUEST_HEADERS: [HeaderName; 7] =
    [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE, GIT_PROTOCOL, USER_AGENT];
/// Forwarded to git.
const RESPONSE_HEADERS: [HeaderName; 2] = [CONTENT_ENCODING, CONTENT_TYPE];

/// The headers for the server, with the credential if there is one.
pub fn request_headers(
    from: &HeaderMap,
    host: HeaderValue,
    authorization: Option<&HeaderValue>,
) -> HeaderMap {
    let mut to = chosen(from, &REQUEST_HEADERS);
    to.insert(HOST, host);
    if let Some(value) = authorization {
        to.insert(AUTHORIZATION, value.clone());
    }
    to
}

pub fn response_headers(from: &HeaderMap) -> HeaderMap {
    let mut to = chosen(from, &RESPONSE_HEADERS);
    to.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    to
}

/// Returns a credential as a header that no log prints.
pub fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
            .ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn chosen(from: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    from.iter()
        .filter(|(name, _)| names.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_named_headers_and_our_credential_only() {
        let from: HeaderMap = [
            ("host", "127.0.0.1:900"),
            ("authorization", "Basic forged"),
            ("cookie", "a=b"),
            ("x-forwarded-for", "1.2.3.4"),
            ("proxy-authorization", "x"),
            ("transfer-encoding", "chunked"),
            ("content-type", "application/x-git-upload-pack-request"),
            ("content-encoding", "gzip"),
            ("git-protocol", "version=2"),
            ("user-agent", "git/2"),
        ]
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
        let credential = basic("git", "token").expect("a header");
        let to = request_headers(&from, HeaderValue::from_static("server"), Some(&credential));
        let mut names: Vec<&str> = to.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected =
            ["authorization", "content-encoding", "content-type", "git-protocol", "host", "user-agent"];
        assert_eq!(names, expected);
        assert_eq!((&to[HOST], &to[AUTHORIZATION]), (&HeaderValue::from_static("server"), &credential));
        assert_eq!(to[AUTHORIZATION], "Basic Z2l0OnRva2Vu");
        assert!(!format!("{to:?}").contains("Z2l0"), "no log prints it");
        assert!(!request_headers(&from, HeaderValue::from_static("s"), None).contains_key(AUTHORIZATION));
    }
}
