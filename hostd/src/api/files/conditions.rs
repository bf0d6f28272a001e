//! Conditions and ranges of HTTP, parsed. Pure.

use super::super::error::CallError;
use hyper::{
    HeaderMap,
    header::{HeaderName, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE},
};
use protocol::files::ByteRange;

/// Tags of one header.
const TAGS_MAX: usize = 64;

/// The tags of `If-Match`, or `*`.
pub fn if_match(headers: &HeaderMap) -> Result<Option<Vec<String>>, CallError> {
    tags(headers, &IF_MATCH)
}

/// The tags of `If-None-Match`, or `*`.
pub fn if_none_match(headers: &HeaderMap) -> Result<Option<Vec<String>>, CallError> {
    tags(headers, &IF_NONE_MATCH)
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>, CallError> {
    let mut found = Vec::new();
    let mut given = false;
    for value in headers.get_all(name) {
        given = true;
        let text = value.to_str().map_err(|_| invalid(name, "is not text"))?;
        found.extend(text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(strong));
    }
    if found.len() > TAGS_MAX {
        return Err(invalid(name, "has too many tags"));
    }
    Ok(given.then_some(found))
}

/// Proxies that compress make a tag weak; the content they got is the same.
fn strong(tag: &str) -> String {
    tag.strip_prefix("W/").unwrap_or(tag).to_owned()
}

fn invalid(name: &HeaderName, what: &str) -> CallError {
    CallError::invalid(name.as_str(), format!("the header {name} {what}"))
}

/// The one range of `Range`. Several, other units and nonsense are as no range: all of the file is sent.
pub fn range(headers: &HeaderMap) -> Option<ByteRange> {
    let text = headers.get(RANGE)?.to_str().ok()?;
    let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (first.trim(), last.trim()) {
        ("", last) => Some(ByteRange::Suffix { bytes: number(last)? }),
        (first, "") => Some(ByteRange::From { first: number(first)?, last: None }),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(ByteRange::From { first, last: Some(last) })
        }
    }
}

/// The tag that a range is for; with another the whole file is sent.
pub fn if_range(headers: &HeaderMap) -> Option<String> {
    headers.get(IF_RANGE).and_then(|value| value.to_str().ok()).map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, text: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, text.parse().unwrap())])
    }

    #[test]
    fn one_range_of_bytes_is_understood() {
        let from = |first, last| Some(ByteRange::From { first, last });
        let table = [
            ("bytes=0-", from(0, None)),
            ("bytes=5-9", from(5, Some(9))),
            ("bytes=-3", Some(ByteRange::Suffix { bytes: 3 })),
            ("bytes=9-5", None),
            ("bytes=0-1,3-4", None),
            ("bytes=-", None),
            ("lines=0-1", None),
            ("bytes=a-b", None),
            ("bytes=99999999999999999999-", None),
        ];
        for (text, expected) in table {
            assert_eq!(range(&with(RANGE, text)), expected, "{text}");
        }
    }

    #[test]
    fn tags_are_a_list() {
        let table = [("\"a\"", vec!["\"a\""]), ("W/\"a\" , \"b\"", vec!["\"a\"", "\"b\""]), ("*", vec!["*"])];
        for (text, expected) in table {
            assert_eq!(if_match(&with(IF_MATCH, text)).unwrap().unwrap(), expected, "{text}");
        }
        assert_eq!(if_match(&HeaderMap::new()).unwrap(), None);
    }
}
