//! E2B: the sandboxes of its control plane, and the processes and files inside them.
//!
//! ```text
//!  X-API-KEY, api.<domain> ──▶ control: create, list, pause, connect, snapshots, …
//!  X-Access-Token, <port>-<id>.<domain> ──▶ envd
//!                     record: what E2B knows of a sandbox and Slipway does not
//! ```

mod control;
mod envd_token;
mod record;

pub use control::serve;

pub mod traffic_token;

use crate::{Clients, respond};
use axum::{body::Body, response::Response};
use hyper::{Request, StatusCode};

pub async fn serve_sandbox(_clients: &Clients, _request: Request<Body>) -> Response {
    respond::json(StatusCode::NOT_IMPLEMENTED, &serde_json::json!({"message": "not written yet"}))
}
