//! Which headers are forwarded: those that are named here or by a dialect. Pure.

use super::{
    dialect::{Forwarded, KeyHeader, all_rules, rules},
    redact_key::redact,
};
use crate::{Dialect, Provider, ProviderKey};
use hyper::{
    HeaderMap,
    header::{
        ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HOST,
        HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
    },
};

/// Forwarded to the provider, with those that a dialect names. None identifies the caller, the account or the
/// route.
const REQUEST_HEADERS: [&str; 2] = ["x-client-request-id", "x-app"];
const REQUEST_HEADER_PREFIX: &str = "x-stainless-";

/// Forwarded to the agent, with those that a dialect names.
const RESPONSE_HEADERS: [&str; 5] =
    ["request-id", "x-request-id", "retry-after-ms", "x-should-retry", "server-timing"];
const RESPONSE_HEADER_PREFIX: &str = "x-ratelimit-";

/// The key of a provider cannot be sent in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its key has characters that no header can carry; add the provider again")]
pub struct UnsendableKey;

/// The headers for the provider, with its credential.
pub fn request_headers(
    from: &HeaderMap,
    host: &HeaderValue,
    provider: &Provider,
) -> Result<HeaderMap, UnsendableKey> {
    let mut to = HeaderMap::new();
    to.insert(HOST, host.clone());
    for (name, value) in from {
        if [CONTENT_TYPE, ACCEPT, USER_AGENT].contains(name) || is_request_header(name.as_str()) {
            to.append(name, value.clone());
        }
    }
    to.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    // A compressed response could not be inspected.
    to.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(key) = &provider.key {
        let (name, value) = credential(provider.dialect, key)?;
        to.insert(name, value);
    }
    Ok(to)
}

fn credential(
    dialect: Dialect,
    ProviderKey(key): &ProviderKey,
) -> Result<(HeaderName, HeaderValue), UnsendableKey> {
    let (name, value) = match rules(dialect).key_header() {
        KeyHeader::Bearer => (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {}", key.as_str()))),
        KeyHeader::Named(name) => (HeaderName::from_static(name), HeaderValue::from_str(key.as_str())),
    };
    let mut value = value.map_err(|_| UnsendableKey)?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// The headers for the agent. A header that contains a part of the key is left out.
pub fn response_headers(from: &HeaderMap, key: Option<&str>) -> HeaderMap {
    let mut to = HeaderMap::new();
    for (name, value) in from {
        let known = [CONTENT_TYPE, RETRY_AFTER].contains(name) || is_response_header(name.as_str());
        let clean = value.to_str().is_ok_and(|value| redact(value, key) == value);
        if known && clean {
            to.append(name, value.clone());
        }
    }
    to.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    to
}

fn is_request_header(name: &str) -> bool {
    REQUEST_HEADERS.contains(&name)
        || name.starts_with(REQUEST_HEADER_PREFIX)
        || all_rules().any(|rules| rules.forwarded().request_headers.contains(&name))
}

fn is_response_header(name: &str) -> bool {
    let is_named = |forwarded: &Forwarded| {
        forwarded.response_headers.contains(&name)
            || forwarded.response_header_prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    RESPONSE_HEADERS.contains(&name)
        || name.starts_with(RESPONSE_HEADER_PREFIX)
        || all_rules().any(|rules| is_named(rules.forwarded()))
}

/// Whether the body has no content encoding.
pub fn is_uncompressed(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(CONTENT_ENCODING).iter();
    all.all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value")))
            .collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    fn provider(dialect: Dialect, key: Option<&str>) -> Provider {
        let key = key.map(|key| ProviderKey(key.to_owned().into()));
        Provider { name: "p".to_owned(), dialect, base_url: "http://x".to_owned(), key }
    }

    #[test]
    fn only_named_headers_go_out_and_with_our_credential() {
        let from = map(&[
            ("host", "127.0.0.1:900"),
            ("authorization", "Bearer placeholder"),
            ("x-api-key", "placeholder"),
            ("x-goog-api-key", "placeholder"),
            ("proxy-authorization", "x"),
            ("openai-organization", "org"),
            ("openai-project", "proj"),
            ("x-goog-user-project", "proj"),
            ("cookie", "a=b"),
            ("forwarded", "for=x"),
            ("x-forwarded-for", "x"),
            ("x-http-method-override", "DELETE"),
            ("content-length", "9"),
            ("transfer-encoding", "chunked"),
            ("connection", "keep-alive"),
            ("accept-encoding", "gzip, br"),
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("user-agent", "agent/1"),
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "x"),
            ("x-stainless-lang", "js"),
        ]);
        let host = HeaderValue::from_static("api.example");
        let to = request_headers(&from, &host, &provider(Dialect::Openai, Some("real"))).expect("a good key");
        let expected = [
            "accept",
            "accept-encoding",
            "anthropic-beta",
            "anthropic-version",
            "authorization",
            "content-type",
            "host",
            "user-agent",
            "x-stainless-lang",
        ];
        assert_eq!(names(&to), expected);
        assert_eq!(to[AUTHORIZATION], "Bearer real");
        assert_eq!((to[HOST].clone(), to[ACCEPT_ENCODING].clone()), (host, "identity".parse().expect("one")));
        assert!(!format!("{to:?}").contains("real"), "it is not printed");
    }

    #[test]
    fn a_credential_is_where_its_dialect_wants_it() {
        let host = HeaderValue::from_static("x");
        let to = |dialect, key| request_headers(&HeaderMap::new(), &host, &provider(dialect, key));
        assert_eq!(to(Dialect::Anthropic, Some("k")).expect("good")["x-api-key"], "k");
        assert_eq!(to(Dialect::Gemini, Some("k")).expect("good")["x-goog-api-key"], "k");
        assert_eq!(to(Dialect::Openai, Some("a\nb")), Err(UnsendableKey));
        let none = to(Dialect::Openai, None).expect("none");
        assert_eq!(names(&none), ["accept-encoding", "content-type", "host"]);
    }

    #[test]
    fn an_answer_keeps_what_agents_read_and_nothing_of_the_key() {
        let from = map(&[
            ("content-type", "text/event-stream"),
            ("retry-after", "2"),
            ("request-id", "r"),
            ("x-ratelimit-remaining-tokens", "5"),
            ("anthropic-ratelimit-tokens-limit", "6"),
            ("x-request-id", "for secret-key-1234"),
            ("set-cookie", "a=b"),
            ("location", "http://elsewhere"),
            ("content-length", "10"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("access-control-allow-origin", "*"),
            ("alt-svc", "h3"),
        ]);
        let expected = [
            "anthropic-ratelimit-tokens-limit",
            "cache-control",
            "content-type",
            "request-id",
            "retry-after",
            "x-ratelimit-remaining-tokens",
        ];
        assert_eq!(names(&response_headers(&from, Some("secret-key-1234"))), expected);
    }

    #[test]
    fn compression_is_seen() {
        assert!(is_uncompressed(&map(&[])));
        assert!(is_uncompressed(&map(&[("content-encoding", "Identity")])));
        assert!(!is_uncompressed(&map(&[("content-encoding", "gzip")])));
        assert!(!is_uncompressed(&map(&[("content-encoding", "identity"), ("content-encoding", "br")])));
    }
}
