//! Tunnels: a port of a sandbox by its preview URL, with a pass where previews are private.

use super::{
    BridgeResult, SandboxCall, document,
    error::{BridgeCode, BridgeError},
    limits,
};
use crate::{ApiClient, ApiFailure, respond};
use axum::body::Body;
use hostd_core::Preview;
use hyper::{Method, StatusCode};
use protocol::api::{Page, PreviewLinkCreate, PreviewLinkCreated, PreviewLinkView, SandboxView, Visibility};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
struct TunnelBody {
    #[serde(default)]
    name: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tunnel {
    id: String,
    port: u16,
    url: String,
    hostname: String,
    name: String,
    created_at: String,
}

pub async fn open(call: &SandboxCall<'_>, port: &str, body: Body) -> BridgeResult {
    let preview = preview(call, port)?;
    let body: TunnelBody = document(body, Some(TunnelBody::default())).await?;
    let name = body.name.unwrap_or_else(|| format!("port-{}", preview.port));
    if name.chars().count() > limits::TUNNEL_NAME_MAX_CHARS {
        let most = limits::TUNNEL_NAME_MAX_CHARS;
        return Err(BridgeError::invalid(format!("a name has at most {most} characters")));
    }
    let sandbox: SandboxView = call.api.get(&call.path("")).await.map_err(failed)?;
    let previews = &call.clients.parts.previews;
    let hostname = previews.name(&preview);
    let tunnel = match sandbox.visibility {
        Visibility::Public => Tunnel {
            id: hostname.clone(),
            port: preview.port,
            url: previews.url(&preview),
            hostname,
            name,
            created_at: sandbox.created_at,
        },
        Visibility::Private => {
            let ttl = Some(limits::TUNNEL_TTL.to_owned());
            let create = PreviewLinkCreate { port: preview.port, ttl, path: None };
            let link: PreviewLinkCreated =
                call.api.post(&call.path("/preview-links"), &create).await.map_err(failed)?;
            let created_at = link.view.created_at;
            Tunnel { id: link.view.id, port: preview.port, url: link.url, hostname, name, created_at }
        }
    };
    Ok(respond::json(StatusCode::OK, &tunnel))
}

/// Revokes all links to the port. A public preview has none, and stays public.
pub async fn close(call: &SandboxCall<'_>, port: &str) -> BridgeResult {
    let preview = preview(call, port)?;
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page: Page<PreviewLinkView> =
            call.api.get(&call.path(&format!("/preview-links?limit=100{after}"))).await.map_err(failed)?;
        seen += page.items.len();
        for link in page.items.iter().filter(|link| link.port == preview.port && link.revoked_at.is_none()) {
            let path = call.path(&format!("/preview-links/{}", link.id));
            call.api.send(ApiClient::request(Method::DELETE, &path)).await.map_err(failed)?;
        }
        match page.next {
            Some(next) if seen < limits::TUNNEL_LINKS_MAX => after = format!("&after={next}"),
            Some(_) | None => return Ok(respond::empty(StatusCode::NO_CONTENT)),
        }
    }
}

fn preview(call: &SandboxCall<'_>, port: &str) -> Result<Preview, BridgeError> {
    let invalid = || BridgeError::invalid("the port must be one of the sandbox that previews may show");
    Preview::new(call.id, port).ok_or_else(invalid)
}

fn failed(failure: ApiFailure) -> BridgeError {
    BridgeError::of(failure, BridgeCode::TunnelError)
}
