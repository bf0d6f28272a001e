//! Endpoints of a sandbox: where its execd is, and where its apps are.

use super::{SandboxResult, access_token, error::SandboxError, lifecycle::LifecycleCall, limits};
use crate::{percent, respond};
use hostd_core::Preview;
use hyper::{
    StatusCode,
    header::{HOST, HeaderMap},
};
use protocol::api::{PreviewLinkCreate, PreviewLinkCreated, SandboxId, SandboxView, Visibility};
use serde_json::json;

/// The port of execd, and that of the network policy beside it. Nothing listens there inside a sandbox: both are served
/// here.
pub const EXECD_PORT: u16 = 44772;
pub const EGRESS_PORT: u16 = 18080;
/// The header in which previews take a pass.
const PASS_HEADER: &str = "X-Slipway-Token";

/// The rest of a path below the endpoint of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxied {
    pub sandbox: SandboxId,
    pub port: u16,
    pub rest: String,
}

/// Parses `/sandboxes/{id}/proxy/{port}/…`, with or without the version before it.
pub fn proxied(path: &str) -> Option<Proxied> {
    let path = path.strip_prefix("/v1").unwrap_or(path).strip_prefix("/sandboxes/")?;
    let (sandbox, path) = path.split_once("/proxy/")?;
    let (port, rest) = path.split_once('/').unwrap_or((path, ""));
    Some(Proxied { sandbox: sandbox.parse().ok()?, port: port.parse().ok()?, rest: format!("/{rest}") })
}

/// Returns where a port is reached, and the headers that requests there need.
pub async fn get(
    call: &LifecycleCall<'_>,
    sandbox: SandboxId,
    port: &str,
    (headers, query): (&HeaderMap, Option<&str>),
) -> SandboxResult {
    let invalid = || SandboxError::invalid("the port must be one of the sandbox that previews may show");
    let port: u16 = port.parse().map_err(|_| invalid())?;
    let view: SandboxView = call.api.get(&format!("/v1/sandboxes/{sandbox}")).await?;
    if port == EXECD_PORT || port == EGRESS_PORT {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Through the server the client sends its key, and a request has one credential.
        let through_server = percent::value(query, "use_server_proxy").is_some_and(|text| text == "true");
        let headers = match through_server {
            true => json!({}),
            false => {
                json!({"X-EXECD-ACCESS-TOKEN": access_token::issue(call.clients, &view, &call.key).await?})
            }
        };
        let endpoint = format!("{host}/sandboxes/{sandbox}/proxy/{port}");
        return Ok(respond::json(StatusCode::OK, &json!({"endpoint": endpoint, "headers": headers})));
    }
    let preview = Preview::new(sandbox, &port.to_string()).ok_or_else(invalid)?;
    let headers = match view.visibility {
        Visibility::Public => json!({}),
        Visibility::Private => {
            let ttl = Some(limits::ENDPOINT_TTL.to_owned());
            let create = PreviewLinkCreate { port, ttl, path: None };
            let path = format!("/v1/sandboxes/{sandbox}/preview-links");
            let link: PreviewLinkCreated = call.api.post(&path, &create).await?;
            json!({PASS_HEADER: link.token})
        }
    };
    let endpoint = call.clients.parts.previews.authority(&preview);
    Ok(respond::json(StatusCode::OK, &json!({"endpoint": endpoint, "headers": headers})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_an_endpoint_is_taken_apart() {
        let id = "01jb9xyzabcdefghjkmnpqrstv";
        for (path, expected) in [
            (format!("/sandboxes/{id}/proxy/44772/ping"), Some((44772, "/ping"))),
            (format!("/v1/sandboxes/{id}/proxy/18080/policy"), Some((18080, "/policy"))),
            (format!("/sandboxes/{id}/proxy/44772"), Some((44772, "/"))),
            (format!("/sandboxes/{id}/ping"), None),
            ("/sandboxes/x/proxy/44772/ping".to_owned(), None),
            (format!("/sandboxes/{id}/proxy/99999/ping"), None),
        ] {
            let found = proxied(&path).map(|proxied| (proxied.port, proxied.rest));
            assert_eq!(found, expected.map(|(port, rest)| (port, rest.to_owned())), "{path}");
        }
    }
}
