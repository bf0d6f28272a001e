//! How long heads are on the wire: they are paid for as bodies are, else a sandbox could send everything in heads.

use hyper::{HeaderMap, Request, Response};

/// `GET /path HTTP/1.1`
pub fn request_head_bytes<B>(request: &Request<B>) -> usize {
    let path = request.uri().path_and_query().map_or(1, |path| path.as_str().len());
    request.method().as_str().len() + path + "  HTTP/1.1\r\n".len() + fields_bytes(request.headers())
}

/// `HTTP/1.1 200 OK`
pub fn response_head_bytes<B>(response: &Response<B>) -> usize {
    let reason = response.status().canonical_reason().map_or(0, str::len);
    "HTTP/1.1 200 \r\n".len() + reason + fields_bytes(response.headers())
}

/// With the empty line at their end.
pub fn fields_bytes(fields: &HeaderMap) -> usize {
    let field = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        name.as_str().len() + ": ".len() + value.len() + "\r\n".len()
    };
    fields.iter().map(field).sum::<usize>() + "\r\n".len()
}
