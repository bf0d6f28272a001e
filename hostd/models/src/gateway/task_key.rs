//! The key that an agent presents, and the part of its query that is forwarded. Pure.

use super::{
    dialect::{DialectRules, KeyHeader, all_rules},
    limits::KEY_MAX_BYTES,
};
use hyper::{HeaderMap, header::AUTHORIZATION};

/// The first key in any of the places where agents put it.
pub fn presented_key<'a>(headers: &'a HeaderMap, query: Option<&'a str>) -> Option<&'a str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let named = || {
        all_rules().find_map(|rules| match rules.key_header() {
            KeyHeader::Bearer => None,
            KeyHeader::Named(name) => header(name),
        })
    };
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    let in_query = || pairs(query).find_map(|pair| pair.strip_prefix("key="));
    bearer.or_else(named).or_else(in_query).filter(|key| !key.is_empty() && key.len() <= KEY_MAX_BYTES)
}

/// The parameters that some dialect names, as they were written. Others identify the caller, or drop the usage
/// from a response.
pub fn forwarded_query(query: Option<&str>) -> String {
    let is_plain =
        |value: &str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let kept = pairs(query).filter(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        all_rules().map(DialectRules::forwarded).any(|forwarded| {
            (pair.contains('=') && forwarded.parameters.contains(&name) && is_plain(value))
                || forwarded.parameter_values.contains(pair)
        })
    });
    kept.collect::<Vec<_>>().join("&")
}

fn pairs(query: Option<&str>) -> impl Iterator<Item = &str> {
    query.unwrap_or_default().split(['&', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    type Headers<'a> = &'a [(&'static str, &'a str)];

    #[test]
    fn the_first_key_counts() {
        let table: [(Headers<'_>, Option<&str>, Option<&str>); 9] = [
            (&[("authorization", "Bearer a"), ("x-api-key", "b")], Some("key=d"), Some("a")),
            (&[("authorization", "bearer  a ")], None, Some("a")),
            (&[("authorization", "Basic a"), ("x-api-key", "b")], None, Some("b")),
            (&[("x-api-key", "b"), ("x-goog-api-key", "c")], None, Some("b")),
            (&[("x-goog-api-key", "c")], Some("key=d"), Some("c")),
            (&[], Some("alt=sse&key=d"), Some("d")),
            (&[], Some("monkey=d"), None),
            (&[("x-api-key", "")], None, None),
            (&[], None, None),
        ];
        for (headers, query, expected) in table {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(hyper::header::HeaderName::from_static(name), value.parse().expect("a value"));
            }
            assert_eq!(presented_key(&map, query), expected, "{headers:?} {query:?}");
        }
        let mut map = HeaderMap::new();
        map.insert("x-api-key", "k".repeat(KEY_MAX_BYTES + 1).parse().expect("a value"));
        assert_eq!(presented_key(&map, None), None, "too long");
    }

    #[test]
    fn a_query_is_forwarded_without_the_caller() {
        let table = [
            (None, ""),
            (Some("beta=true"), "beta=true"),
            (Some("alt=sse&key=secret"), "alt=sse"),
            (Some("key=a&key=b"), ""),
            (Some("k%65y=a&alt=sse"), "alt=sse"),
            (Some("alt=sse;key=a"), "alt=sse"),
            (Some("access_token=t&alt=sse&&"), "alt=sse"),
            (Some("flag"), ""),
            (Some("api-version=2024-10-21&$alt=sse"), "api-version=2024-10-21&$alt=sse"),
            (Some("alt=proto&alt=json&fields=candidates&callback=f&prettyPrint=1"), ""),
            (Some("beta=%66&beta=a+b&Alt=sse"), ""),
        ];
        for (query, expected) in table {
            assert_eq!(forwarded_query(query), expected, "{query:?}");
        }
    }
}
