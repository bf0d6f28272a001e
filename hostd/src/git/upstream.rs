//! A request to the server of a repository: the address passes the rules of the sandbox, and TLS is verified.

use super::{
    bodies::{Transfer, UploadBody},
    failure::GitFailure,
    limits::HEAD_MAX_BYTES,
    reach::{host_name, no_response, open_tcp},
};
use hostd_core::GitRemote;
use hostd_edge::egress::SandboxEgress;
use hostd_net::{
    backpressure::{SourceWindow, WindowBody},
    http1::{Http1Connection, ResponseBody},
    outbound::{OutboundConnector, OutboundStream},
};
use hyper::{Request, client::conn::http1::Builder, http::response};
use std::sync::Arc;
use tokio_util::either::Either;

type Upload = WindowBody<UploadBody>;
pub type UpstreamResponseBody = ResponseBody<OutboundStream, Upload>;
type Connection = Http1Connection<OutboundStream, Upload>;

/// A response whose body is still to come.
pub struct UpstreamResponse {
    pub head: response::Parts,
    pub body: UpstreamResponseBody,
    pub window: SourceWindow,
}

/// Sends a request on a connection of its own.
pub async fn send(
    connector: &OutboundConnector,
    transfer: &Arc<Transfer>,
    request: Request<UploadBody>,
) -> Result<UpstreamResponse, GitFailure> {
    let remote = &transfer.grant.remote;
    let mut connection = Box::new(open(connector, &transfer.egress, remote).await?);
    let window = connection.window().clone();
    let request = request.map(|body| WindowBody::to(window.clone(), body));
    let response = connection.send(request).await.map_err(|error| {
        // The error may be of the request's body, whose reason is noted.
        transfer.grant.failure().unwrap_or_else(|| no_response(remote, &error.to_string()))
    })?;
    let (head, incoming) = response.into_parts();
    Ok(UpstreamResponse { head, body: ResponseBody::new(incoming, connection), window: SourceWindow(window) })
}

async fn open(
    connector: &OutboundConnector,
    egress: &SandboxEgress,
    remote: &GitRemote,
) -> Result<Connection, GitFailure> {
    let stream = open_tcp(connector, egress, remote).await?;
    let stream = match remote.is_secure() {
        true => {
            let secured = connector.connect_tls(&host_name(remote.server()), stream).await;
            Either::Right(secured.map_err(|error| GitFailure::Unreachable(error.to_string()))?)
        }
        false => Either::Left(stream),
    };
    let opened = Http1Connection::handshake(stream, Builder::new().max_header_size(HEAD_MAX_BYTES)).await;
    opened.map_err(|error| no_response(remote, &error.to_string()))
}
