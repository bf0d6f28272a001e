//! Takes credentials of ours out of a request before an app sees it.
//!
//! | where one is found | what is dropped |
//! |---|---|
//! | `Authorization` | all of it |
//! | `Cookie` | that cookie |
//! | `Sec-WebSocket-Protocol` | that subprotocol |
//! | `Referer`, the query of the target | that parameter; of a `Referer` with one elsewhere, all of it |
//! | any other header or trailer | that line |

use crate::CredentialScanner;
use http::{
    HeaderMap, Uri,
    header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue, REFERER, SEC_WEBSOCKET_PROTOCOL},
    uri::PathAndQuery,
};

impl CredentialScanner {
    /// Strips headers, or trailers.
    pub fn strip_headers(&self, headers: &mut HeaderMap) {
        let finds = |name: &HeaderName, value: &HeaderValue| {
            self.finds_in(value.as_bytes()) || self.finds_in(name.as_str().as_bytes())
        };
        if !headers.iter().any(|(name, value)| finds(name, value)) {
            return;
        }
        let found = headers.iter().filter(|(name, value)| finds(name, value)).map(|(name, _)| name.clone());
        let found: std::collections::HashSet<HeaderName> = found.collect();
        for name in found {
            let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
            headers.remove(&name);
            for value in self.without_credentials(&name, values) {
                headers.append(&name, value);
            }
        }
    }

    fn without_credentials(&self, name: &HeaderName, values: Vec<HeaderValue>) -> Vec<HeaderValue> {
        if self.finds_in(name.as_str().as_bytes()) || *name == AUTHORIZATION {
            return Vec::new();
        }
        let kept = |value: HeaderValue| {
            let kept = match value.as_bytes() {
                text if !self.finds_in(text) => return Some(value),
                text if *name == COOKIE => self.keep_parts(text, b';', b"; "),
                text if *name == SEC_WEBSOCKET_PROTOCOL => self.keep_parts(text, b',', b", "),
                text if *name == REFERER => self.keep_address(text),
                _ => Vec::new(),
            };
            // The remaining parts joined may form a credential that none of them has.
            let sound = !kept.is_empty() && !self.finds_in(&kept);
            sound.then(|| HeaderValue::from_bytes(&kept).ok()).flatten()
        };
        values.into_iter().filter_map(kept).collect()
    }

    /// Removes query parameters that carry a credential.
    pub fn strip_query(&self, uri: &mut Uri) {
        let Some(query) = uri.query().filter(|query| self.finds_in(query.as_bytes())) else { return };
        let kept = String::from_utf8(self.keep_parts(query.as_bytes(), b'&', b"&")).unwrap_or_default();
        let sound = !kept.is_empty() && !self.finds_in(kept.as_bytes());
        let target = if sound { format!("{}?{kept}", uri.path()) } else { uri.path().to_owned() };
        let mut parts = uri.clone().into_parts();
        // Still valid: the target only got shorter.
        parts.path_and_query = PathAndQuery::try_from(target).ok();
        *uri = Uri::from_parts(parts).unwrap_or_default();
    }

    fn keep_parts(&self, text: &[u8], between: u8, join: &[u8]) -> Vec<u8> {
        let parts = text.split(|byte| *byte == between).filter(|part| !self.finds_in(part));
        // The list is written anew, so whitespace around its items may change.
        parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(join)
    }

    fn keep_address(&self, address: &[u8]) -> Vec<u8> {
        let fragment = memchr::memchr(b'#', address).unwrap_or(address.len());
        let Some(mark) = memchr::memchr(b'?', &address[..fragment]) else { return Vec::new() };
        let query = self.keep_parts(&address[mark + 1..fragment], b'&', b"&");
        let mark = if query.is_empty() { mark } else { mark + 1 };
        [&address[..mark], &query, &address[fragment..]].concat()
    }
}

#[cfg(test)]
mod tests;
