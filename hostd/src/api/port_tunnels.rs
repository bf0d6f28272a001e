//! Tunnels to ports of a sandbox: the caller's connection becomes a WebSocket, and each WebSocket is one TCP
//! connection to an app. Failures are told before the upgrade, as errors of the API.

use super::{
    Api,
    call::Call,
    connection_permits::ConnectionPermit,
    error::{CallError, CallResult},
    limits, listening_ports,
    tunnel_socket::{self, Tunnel},
    websocket,
};
use hostd_core::{AppPort, TransitionRefused};
use hostd_edge::{AppConnection, DialError};
use protocol::api::{ApiError, ApiErrorCode, SandboxId, TUNNEL_SUBPROTOCOL};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

pub async fn open(mut call: Call) -> CallResult {
    let port = app_port(call.param("port")?)?;
    let response = websocket::handshake(&call.headers, TUNNEL_SUBPROTOCOL)?;
    let upgrade = call.take_upgrade()?;
    let permit = call.stream_permit()?;
    // The connection counts as active, not idle, while the tunnel is open.
    let active = call.permit.as_ref().map(ConnectionPermit::begin);
    let (sandbox, control) = call.control().await?;
    let target = call.api.fleet.preview_target(&sandbox.id).ok_or(TransitionRefused::Destroyed)?;
    let opened = AppConnection::open(target, port, &call.api.clock).await;
    let AppConnection { stream, activity } = match opened {
        Ok(connection) => connection,
        Err(failed) => return Err(dial_failed(&call.api, &sandbox.id, port, failed).await),
    };
    // From here on the traffic of the tunnel keeps the sandbox awake, and silence does not.
    drop(control);
    let (waker, closing) = (call.api.fleet.clone(), call.api.closing.clone());
    let tunnel = Tunnel { activity, waker, lease: call.lease.clone(), closing };
    call.api.work.spawn(async move {
        let _held = (permit, active);
        if let Ok(outside) = upgrade.await {
            tunnel_socket::relay(tunnel, outside, stream).await;
        }
    });
    Ok(response)
}

fn app_port(text: &str) -> Result<AppPort, CallError> {
    let own = protocol::HOSTD_PORT_IN_SANDBOX;
    let invalid = || {
        CallError::invalid("port", format!("must be a port of the sandbox from 1 to 65535, and not {own}"))
    };
    AppPort::parse(text).ok_or_else(invalid)
}

async fn dial_failed(api: &Arc<Api>, sandbox: &SandboxId, port: AppPort, failed: DialError) -> CallError {
    match failed {
        DialError::PortClosed => port_closed(api, sandbox, port).await,
        DialError::Starting => {
            let message =
                format!("a service that may listen on port {port} is still starting; try again in a moment");
            CallError::new(ApiErrorCode::Waking, message)
        }
        DialError::TooMany => {
            let message = "too many connections into sandboxes are being opened; try again in a moment";
            CallError::new(ApiErrorCode::TooMany, message)
        }
        DialError::TimedOut => {
            let message = format!("the app on port {port} accepts no connection");
            CallError::new(ApiErrorCode::TimedOut, message)
        }
    }
}

/// The error for a port without a listener, with the ports that have one.
async fn port_closed(api: &Arc<Api>, sandbox: &SandboxId, port: AppPort) -> CallError {
    let asked = listening_ports::of_sandbox(api, sandbox);
    let asked = timeout(Duration::from_millis(limits::LISTENING_TIMEOUT_MS), asked).await;
    let listening = asked.ok().and_then(Result::ok).unwrap_or_default();
    let mut ports: Vec<u16> = listening.iter().map(|listening| listening.port).collect();
    ports.dedup();
    let message = match ports.as_slice() {
        [] => format!("nothing listens on port {port}, nor on any other port of the sandbox"),
        ports => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("nothing listens on port {port} of the sandbox; ports in use: {}", ports.join(", "))
        }
    };
    let error = ApiError::new(ApiErrorCode::PortClosed, message);
    error.with(|detail| detail.listening = listening).into()
}
