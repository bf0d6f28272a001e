//! Reads a file.

use crate::e2b::envd::{auth::Authorized, filesystem::on_path, http_error::HttpError, paths::ClientPath};
use axum::response::Response;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{IF_NONE_MATCH, IF_RANGE, RANGE},
};

/// The bytes of the file, or the range that the headers ask for; of a `HEAD`, only what the headers say.
pub async fn download(
    sandbox: &Authorized,
    method: Method,
    path: &ClientPath,
    headers: &HeaderMap,
) -> Result<Response, HttpError> {
    let api = &sandbox.api;
    let method = &method;
    let read = on_path(path, |query| async move {
        let mut request = api.request(method.clone(), &format!("/files/content?{query}"));
        for name in [RANGE, IF_RANGE, IF_NONE_MATCH] {
            if let Some(value) = headers.get(&name) {
                request.headers_mut().insert(name, value.clone());
            }
        }
        api.send(request).await
    });
    read.await.map_err(|failure| match HttpError::from(failure) {
        HttpError { status: StatusCode::NOT_FOUND, .. } => {
            HttpError::new(StatusCode::NOT_FOUND, format!("path '{}' does not exist", path.as_str()))
        }
        error => error,
    })
}
