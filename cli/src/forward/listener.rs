//! The local end of a forwarded port: listens, and relays every connection.

use super::{PortSpec, relay};
use crate::{
    client::{ApiRequest, Client, ClientError},
    failure::{Failure, eprint_line},
    limits,
    text::plain,
};
use protocol::api::{ApiErrorCode, SandboxId};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};

/// A port of a sandbox that is listened for here.
pub struct Forwarded {
    listener: TcpListener,
    client: Arc<Client>,
    sandbox: SandboxId,
    port: u16,
    /// The last failure that was printed, and when: a browser that retries repeats it.
    reported: Mutex<Option<(String, Instant)>>,
}

/// Listens on a local address; an error names a free port where the wanted one is taken or not allowed.
pub async fn bind(address: IpAddr, spec: PortSpec) -> Result<TcpListener, Failure> {
    let wanted = SocketAddr::new(address, spec.local);
    let error = match TcpListener::bind(wanted).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let why = if error.kind() == io::ErrorKind::AddrInUse {
        "is in use by another program here"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "needs root here"
    } else {
        return Err(Failure::io(format!("listen on {wanted}"), error));
    };
    let failure = Failure::new(format!("{wanted} {why}"));
    Err(match free_port(address).await {
        Ok(free) => failure.hint(format!("give another local port, as in `{}:{free}`", spec.port)),
        Err(_) => failure.hint(format!("let one be picked: `{}:0`", spec.port)),
    })
}

/// A port that is free at this moment.
async fn free_port(address: IpAddr) -> io::Result<u16> {
    Ok(TcpListener::bind((address, 0)).await?.local_addr()?.port())
}

impl Forwarded {
    pub fn new(listener: TcpListener, client: Arc<Client>, sandbox: SandboxId, port: u16) -> Self {
        Self { listener, client, sandbox, port, reported: Mutex::new(None) }
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Relays connections until it is dropped, and they with it.
    pub async fn serve(self) {
        let this = Arc::new(self);
        let permits = Arc::new(Semaphore::new(limits::FORWARD_CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            // Beyond the limit connections wait in the queue of the kernel.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let accepted = tokio::select! {
                // Both are safe to cancel: an accepted connection is returned, and an ended task is counted.
                accepted = this.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((local, _)) => {
                    let this = Arc::clone(&this);
                    connections.spawn(async move {
                        this.forward(local).await;
                        drop(permit);
                    });
                }
                // As when descriptors run out; they come back.
                Err(_) => sleep(limits::FORWARD_ACCEPT_RETRY).await,
            }
        }
    }

    async fn forward(&self, local: TcpStream) {
        let _ = local.set_nodelay(true);
        let socket = tokio::select! {
            // Safe to cancel: the local connection was reset, and no task waits for the other one.
            socket = self.open() => socket,
            () = relay::closed(&local) => return,
        };
        match socket {
            Ok(socket) => relay::relay(local, socket).await,
            Err(error) => {
                self.report(&error);
                relay::reset(&local);
            }
        }
    }

    /// Opens the tunnel, and waits a little for a hostd that restarts.
    async fn open(&self) -> Result<crate::websocket::Socket, ClientError> {
        let path = format!("/v1/sandboxes/{}/ports/{}/tunnel", self.sandbox, self.port);
        let give_up = Instant::now() + limits::FORWARD_RETRY_MAX;
        loop {
            // The sandbox may have to start first.
            let request = ApiRequest::get(path.clone()).timeout(limits::SETTLE_TIMEOUT);
            match relay::open(&self.client, request).await {
                Err(error) if is_restart(&error) && Instant::now() < give_up => {
                    sleep(limits::FORWARD_RETRY_EVERY).await;
                }
                opened => return opened,
            }
        }
    }

    fn report(&self, error: &ClientError) {
        let text = format!("slipway: port {}: {}", self.port, plain(&error.to_string()));
        let Ok(mut reported) = self.reported.lock() else { return };
        let repeated =
            |(before, at): &(String, Instant)| *before == text && at.elapsed() < limits::FORWARD_REPORT_EVERY;
        if !reported.as_ref().is_some_and(repeated) {
            eprint_line(&text);
            *reported = Some((text, Instant::now()));
        }
    }
}

/// Whether hostd may be back in a moment.
fn is_restart(error: &ClientError) -> bool {
    error.is(ApiErrorCode::ShuttingDown) || error.api().is_none() && error.is_transient()
}
