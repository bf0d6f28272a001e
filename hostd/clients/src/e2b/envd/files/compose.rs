//! Joins files to one. The new file appears whole; then its sources are deleted.

use super::{download, upload};
use crate::{
    ApiFailure,
    e2b::envd::{
        auth::Authorized,
        filesystem::{on_path, written},
        http_error::HttpError,
        limits::{COMPOSE_BODY_MAX_BYTES, COMPOSE_SOURCES_MAX},
        paths::ClientPath,
        user,
    },
    respond,
};
use axum::{BoxError, body::Body, response::Response};
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::{HeaderMap, Method, StatusCode};
use protocol::api::FileView;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Debug, Deserialize)]
struct ComposeRequest {
    source_paths: Vec<String>,
    destination: String,
    #[serde(default)]
    username: Option<String>,
}

pub async fn compose(sandbox: Authorized, body: Body) -> Result<Response, HttpError> {
    let request = respond::read(body, COMPOSE_BODY_MAX_BYTES).await;
    let request = request.map_err(|error| HttpError::bad_request(error.to_string()))?;
    let request: ComposeRequest = serde_json::from_slice(&request)
        .map_err(|error| HttpError::bad_request(format!("the request is malformed: {error}")))?;
    user::check_name(request.username.as_deref())?;
    if request.source_paths.is_empty() || request.source_paths.len() > COMPOSE_SOURCES_MAX {
        let message = format!("source_paths must have 1 to {COMPOSE_SOURCES_MAX} paths");
        return Err(HttpError::bad_request(message));
    }
    let sources = request.source_paths.iter().map(|path| upload::parse(path));
    let sources = sources.collect::<Result<Vec<ClientPath>, HttpError>>()?;
    let destination = upload::parse(&request.destination)?;
    let sandbox = Arc::new(sandbox);
    // All are there before anything is written.
    for source in &sources {
        download::download(&sandbox, Method::HEAD, source, &HeaderMap::new()).await?;
    }
    upload::write(&sandbox, &destination, joined(sandbox.clone(), sources.clone())).await?;
    let made = version(&sandbox, &destination).await?;
    let api = &sandbox.api;
    // The home has two names.
    for source in sources.iter().filter(|source| source.inside() != destination.inside()) {
        match version(&sandbox, source).await {
            // Another path to the new file, through a link to a directory.
            Ok(found) if found == made => continue,
            Ok(_) => {}
            // Named twice, it is deleted once.
            Err(failure) if failure.status == StatusCode::NOT_FOUND => continue,
            Err(failure) => return Err(failure.into()),
        }
        let deleted =
            on_path(source, |query| async move { api.delete(&format!("/files/content?{query}")).await });
        match deleted.await {
            Err(failure) if failure.status == StatusCode::NOT_FOUND => {}
            deleted => deleted?,
        }
    }
    Ok(respond::json(StatusCode::OK, &written(&destination)))
}

/// Identifies the entry at a path, a link itself, and the state that it is in.
async fn version(sandbox: &Authorized, path: &ClientPath) -> Result<String, ApiFailure> {
    let api = &sandbox.api;
    let found =
        on_path(path, |query| async move { api.get::<FileView>(&format!("/files/stat?{query}")).await });
    Ok(found.await?.etag)
}

/// The content of all files, one after the other. An error ends the body early, so that nothing is written.
fn joined(sandbox: Arc<Authorized>, sources: Vec<ClientPath>) -> Body {
    let contents = stream::iter(sources).then(move |source| {
        let sandbox = sandbox.clone();
        async move {
            let read = download::download(&sandbox, Method::GET, &source, &HeaderMap::new()).await;
            let read = read.map_err(|error| BoxError::from(error.message))?;
            Ok::<_, BoxError>(read.into_body().into_data_stream().map_err(BoxError::from))
        }
    });
    // A body that has ended may be asked again.
    Body::from_stream(contents.try_flatten().fuse())
}
