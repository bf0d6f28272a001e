//! Sessions: commands with the header `Session-Id` share their working directory and variables.

use super::{
    BridgeResult, SandboxCall, document,
    error::{BridgeCode, BridgeError},
    paths::BridgePath,
};
use crate::{
    ApiFailure, respond,
    shell_session::{SessionName, SessionStart},
};
use axum::body::Body;
use hyper::StatusCode;
use protocol::api::ApiErrorCode;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize)]
struct SessionBody {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

pub async fn create(call: &SandboxCall<'_>, body: Body) -> BridgeResult {
    let body: SessionBody = document(body, Some(SessionBody::default())).await?;
    let name = match &body.id {
        Some(id) => parse(id)?,
        None => SessionName::generate(),
    };
    let cwd = body.cwd.as_ref().map(|cwd| BridgePath::parse(cwd.as_bytes())).transpose()?;
    let cwd = cwd.map_or_else(|| BridgePath::parse(b""), Ok)?.directory();
    let start = SessionStart { cwd, env: body.env };
    name.create(&call.api, &call.id, &start).await.map_err(failed)?;
    Ok(respond::json(StatusCode::OK, &json!({"id": name.as_str()})))
}

pub async fn delete(call: &SandboxCall<'_>, name: &str) -> BridgeResult {
    parse(name)?.delete(&call.api, &call.id).await.map_err(failed)?;
    Ok(respond::json(StatusCode::OK, &json!({"success": true, "sessionId": name})))
}

fn parse(name: &str) -> Result<SessionName, BridgeError> {
    SessionName::parse(name).map_err(|error| BridgeError::invalid(error.to_string()))
}

pub fn failed(failure: ApiFailure) -> BridgeError {
    let of_file = failure.error.detail.missing.is_none();
    if failure.error.code == ApiErrorCode::NotFound && of_file {
        let message = "there is no such session; create it with POST session";
        return BridgeError::new(StatusCode::NOT_FOUND, BridgeCode::SessionError, message);
    }
    if matches!(failure.error.code, ApiErrorCode::FileExists | ApiErrorCode::PreconditionFailed) {
        let message = "there is a session with this id";
        return BridgeError::new(StatusCode::CONFLICT, BridgeCode::SessionError, message);
    }
    BridgeError::of(failure, BridgeCode::SessionError)
}
