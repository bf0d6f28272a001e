//! Not written yet.

pub mod traffic_token;

use crate::{Clients, respond};
use axum::{body::Body, response::Response};
use hyper::{Request, StatusCode};

pub async fn serve(_clients: &Clients, _request: Request<Body>) -> Response {
    respond::json(StatusCode::NOT_IMPLEMENTED, &serde_json::json!({"message": "not written yet"}))
}

pub async fn serve_sandbox(_clients: &Clients, _request: Request<Body>) -> Response {
    respond::json(StatusCode::NOT_IMPLEMENTED, &serde_json::json!({"message": "not written yet"}))
}
