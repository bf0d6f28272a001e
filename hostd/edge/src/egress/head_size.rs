//! Sizes of HTTP heads on the wire. They count for the byte quota as bodies do; otherwise a sandbox could
//! send everything in heads.

use hyper::{HeaderMap, Request, Response};

/// Bytes of a request head: `GET /path HTTP/1.1` and its fields.
pub fn request_head_bytes<B>(request: &Request<B>) -> usize {
    let path = request.uri().path_and_query().map_or(1, |path| path.as_str().len());
    request.method().as_str().len() + path + "  HTTP/1.1\r\n".len() + fields_bytes(request.headers())
}

/// Bytes of a response head: `HTTP/1.1 200 OK` and its fields.
pub fn response_head_bytes<B>(response: &Response<B>) -> usize {
    let reason = response.status().canonical_reason().map_or(0, str::len);
    "HTTP/1.1 200 \r\n".len() + reason + fields_bytes(response.headers())
}

/// Bytes of header fields, with the empty line at the end.
pub fn fields_bytes(fields: &HeaderMap) -> usize {
    let field = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        name.as_str().len() + ": ".len() + value.len() + "\r\n".len()
    };
    fields.iter().map(field).sum::<usize>() + "\r\n".len()
}
