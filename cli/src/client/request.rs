//! A request to hostd as a value that can be sent any number of times.

use crate::limits;
use bytes::Bytes;
use hyper::Method;
use serde::Serialize;
use std::{fmt::Write as _, time::Duration};

#[derive(Debug, Clone)]
pub struct ApiRequest {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
    /// Timeout for the head of the response, and for all of it unless it is a stream.
    pub(super) timeout: Duration,
}

impl ApiRequest {
    fn new(method: Method, path: impl Into<String>) -> Self {
        let timeout = limits::RESPONSE_TIMEOUT;
        Self { method, target: path.into(), headers: Vec::new(), body: Bytes::new(), timeout }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    pub fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Adds a query parameter whose value is bytes.
    pub fn query_bytes(mut self, name: &str, value: &[u8]) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(name);
        self.target.push('=');
        self.target.push_str(&encode_bytes(value));
        self
    }

    /// Adds a query parameter.
    #[expect(clippy::needless_pass_by_value, reason = "callers give numbers and fresh text")]
    pub fn query(self, name: &str, value: impl ToString) -> Self {
        self.query_bytes(name, value.to_string().as_bytes())
    }

    pub fn query_if(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Requests long pages of a list. Not every list has pages.
    pub fn long_pages(self) -> Self {
        self.query("limit", limits::PAGE_ITEMS)
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body).expect("our types have only text keys").into();
        self.header("content-type", "application/json")
    }

    pub fn bytes(mut self, body: Bytes) -> Self {
        self.body = body;
        self.header("content-type", "application/octet-stream")
    }

    /// A body that is a JSON document already.
    pub fn json_text(mut self, body: Bytes) -> Self {
        self.body = body;
        self.header("content-type", "application/json")
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Percent-encodes text for a path segment or a query.
pub fn encode(text: &str) -> String {
    encode_bytes(text.as_bytes())
}

fn encode_bytes(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(*byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a String takes everything");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded_and_joined() {
        let ask = ApiRequest::get("/v1/sandboxes")
            .query("all", 1)
            .query("project", "a b&c=é")
            .query_if("after", None::<u64>);
        assert_eq!(ask.target, "/v1/sandboxes?all=1&project=a%20b%26c%3D%C3%A9");
    }
}
