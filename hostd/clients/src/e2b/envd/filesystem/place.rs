//! Calls of the files API about a path: in the workspace where it is one of it, else in the whole sandbox.

use crate::{
    ApiClient, ApiFailure,
    e2b::envd::{paths::ClientPath, sandbox_api::SandboxApi},
};
use axum::response::Response;
use hyper::Method;
use protocol::api::ApiErrorCode;
use serde::de::DeserializeOwned;

/// Makes the call with the query of this path. A link that leads out of the workspace is followed inside the sandbox.
pub async fn on_path<T, F>(path: &ClientPath, call: impl Fn(String) -> F) -> Result<T, ApiFailure>
where
    F: Future<Output = Result<T, ApiFailure>>,
{
    match call(path.query("path")).await {
        Err(failure) if failure.error.code == ApiErrorCode::OutsideWorkspace => {
            call(path.query_anywhere("path")).await
        }
        done => done,
    }
}

/// Makes a call without a body; the response may be of more than one status.
pub async fn send(api: &SandboxApi, method: Method, rest: &str) -> Result<Response, ApiFailure> {
    api.send(api.request(method, rest)).await
}

/// Reads the document of a response.
pub async fn read_json<T: DeserializeOwned>(response: Response) -> Result<T, ApiFailure> {
    ApiClient::read_json(response).await
}
