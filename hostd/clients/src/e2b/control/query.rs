//! Query parameters. Unknown ones are left alone: a newer SDK may send more.

use super::error::E2bError;
use axum::extract;
use hyper::Uri;
use std::collections::BTreeMap;

pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub fn parse(uri: &Uri) -> Result<Self, E2bError> {
        match extract::Query::try_from_uri(uri) {
            Ok(extract::Query(pairs)) => Ok(Self { pairs }),
            Err(_) => Err(E2bError::invalid("the query is not name=value pairs separated by &")),
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(each, _)| each == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, E2bError> {
        let wrong = |_| E2bError::invalid(format!("{name} must be a whole number"));
        self.text(name).map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// The values of a parameter that may be repeated, or be several separated by commas.
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.pairs.iter().filter(move |(each, _)| each == name);
        named.flat_map(|(_, value)| value.split(',')).filter(|value| !value.is_empty())
    }

    /// The pairs of a parameter that is a query itself, whose names and values are encoded once more.
    pub fn nested(&self, name: &str) -> Result<BTreeMap<String, String>, E2bError> {
        let wrong = || E2bError::invalid(format!("{name} must be name=value pairs, percent-encoded"));
        let Some(text) = self.text(name) else { return Ok(BTreeMap::new()) };
        let pairs = text.split('&').map(|pair| {
            let (key, value) = pair.split_once('=')?;
            Some((decoded_twice(key)?, decoded_twice(value)?))
        });
        pairs.collect::<Option<_>>().ok_or_else(wrong)
    }
}

/// The first encoding is that of a form, with + for a space.
fn decoded_twice(text: &str) -> Option<String> {
    decoded(&decoded(&text.replace('+', " "))?)
}

/// Undoes percent-encoding; `None` if that is no text.
pub fn decoded(text: &str) -> Option<String> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (*first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).ok()?);
                rest = after.get(2..)?;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(&format!("/v2/sandboxes?{text}").parse().expect("a URI")).expect("a query")
    }

    #[test]
    fn lists_come_repeated_or_with_commas() {
        for text in ["state=running,paused", "state=running&state=paused", "state=running%2Cpaused"] {
            assert_eq!(query(text).list("state").collect::<Vec<_>>(), ["running", "paused"], "{text}");
        }
        assert_eq!(query("state=").list("state").count(), 0);
        assert_eq!(query("limit=7").number("limit").ok().flatten(), Some(7));
        assert!(query("limit=-1").number("limit").is_err());
    }

    #[test]
    fn metadata_is_encoded_twice() {
        // {"a b": "ü&=+%"} as the SDKs send it.
        let text = "metadata=a%252520b%3D%2525C3%2525BC%252526%25253D%25252B%252525";
        let expected = BTreeMap::from([("a b".to_owned(), "ü&=+%".to_owned())]);
        assert_eq!(query(text).nested("metadata").expect("pairs"), expected);
        assert_eq!(
            query("metadata=a%3D1%26b%3D2").nested("metadata").expect("pairs"),
            BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())])
        );
        assert!(query("metadata=a").nested("metadata").is_err());
        assert!(query("metadata=a%3D%2525ff").nested("metadata").is_err());
    }
}
