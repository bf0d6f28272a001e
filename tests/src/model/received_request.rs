//! The requests that the server received, for assertions.

use super::dialect::Dialect;
use bytes::Bytes;
use hyper::header::HeaderMap;
use serde_json::Value;

#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub method: String,
    /// With its query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// For which API; nothing for what is no call of a model.
    pub speech: Option<Dialect>,
    /// The request offered no tools: it asks for a title or the like.
    pub small: bool,
    /// The status of the answer; nothing where none was given.
    pub status: Option<u16>,
}

impl ReceivedRequest {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The credential, wherever a dialect has it.
    pub fn key(&self) -> Option<String> {
        key_of(&self.headers, &self.path)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// All that was sent, as text to look for something in.
    pub fn everything(&self) -> String {
        format!("{} {}\n{:?}\n{}", self.method, self.path, self.headers, self.text())
    }
}

pub(super) fn key_of(headers: &HeaderMap, path: &str) -> Option<String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let query = path
        .split_once('?')
        .and_then(|(_, query)| query.split('&').find_map(|pair| pair.strip_prefix("key=")));
    header("x-api-key").or(bearer).or_else(|| header("x-goog-api-key")).or(query).map(str::to_owned)
}
