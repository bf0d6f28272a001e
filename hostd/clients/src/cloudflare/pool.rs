//! The pool of containers that the bridge's clients may ask for. Slipway starts a sandbox in milliseconds and keeps none in
//! reserve: to prime the pool is to find it primed.

use super::{
    BridgeResult,
    error::{BridgeCode, BridgeError},
    limits, sandbox,
};
use crate::{ApiClient, respond};
use hyper::StatusCode;
use protocol::api::{Page, SandboxView};
use serde_json::json;

/// Counts the sandboxes that the caller sees.
pub async fn stats(api: &ApiClient) -> BridgeResult {
    let (mut assigned, mut after) = (0, String::new());
    while assigned < limits::POOL_COUNTED_MAX {
        let page = api.get::<Page<SandboxView>>(&format!("/v1/sandboxes?limit=1000{after}")).await;
        let page = page.map_err(|failure| BridgeError::of(failure, BridgeCode::PoolError))?;
        assigned += page.items.len();
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let stats = json!({
        "warm": 0,
        "assigned": assigned,
        "total": assigned,
        "config": {"warmTarget": 0, "refreshInterval": 0},
        "maxInstances": null,
    });
    Ok(respond::json(StatusCode::OK, &stats))
}

/// Accepts a wish about containers in reserve.
pub async fn accept(api: &ApiClient) -> BridgeResult {
    sandbox::authenticated(api).await?;
    Ok(respond::json(StatusCode::OK, &json!({"ok": true})))
}
