//! A `CONNECT` tunnel: relays bytes between the sandbox and a server until both directions have ended, or it
//! is cut.

use super::{
    limits::{BUFFER_MAX_BYTES, BUFFER_MIN_BYTES},
    proxy::ProxyResponse,
    splice_pipe::SplicePipe,
    tracked_connection::{Direction, TrackedConnection},
};
use axum::body::Body;
use hostd_metrics::GaugeGuard;
use hostd_net::backpressure::WindowIo;
use hyper::{
    Request, Response,
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tracing::debug;

/// The response that opens a tunnel, and the tunnel. The socket to the server is open until the tunnel ends.
pub fn open(
    mut request: Request<Incoming>,
    server_side: TcpStream,
    tracked: Arc<TrackedConnection>,
) -> ProxyResponse {
    let sandbox_side = hyper::upgrade::on(&mut request);
    let tunnel = Some(Box::pin(run(sandbox_side, server_side, tracked)) as _);
    ProxyResponse { response: Response::new(Body::empty()), tunnel }
}

async fn run(sandbox_side: OnUpgrade, server_side: TcpStream, tracked: Arc<TrackedConnection>) {
    let sandbox_side = match sandbox_side.await {
        Ok(sandbox_side) => sandbox_side,
        Err(error) => return debug!(%error, "tunnel was not opened"),
    };
    let _open = GaugeGuard::new(&tracked.metrics().tunnels);
    tokio::select! {
        // Cancelling either arm closes both sockets, which is the end of the tunnel.
        ended = relay_both(sandbox_side, server_side, &tracked) => {
            if let Err(error) = ended {
                debug!(%error, "tunnel failed");
            }
        }
        cut = tracked.clone().until_cut() => debug!(%cut, "tunnel was cut"),
    }
}

async fn relay_both(
    sandbox_side: Upgraded,
    server_side: TcpStream,
    tracked: &TrackedConnection,
) -> io::Result<()> {
    // Doors serve HTTP/1.1 on TCP sockets only.
    let sandbox_side = sandbox_side.downcast::<TokioIo<WindowIo<TcpStream>>>();
    let sandbox_side =
        sandbox_side.map_err(|_| io::Error::other("the upgraded connection is not a TCP socket"))?;
    let (mut from_server, mut to_server) = server_side.into_split();
    tracked.count(Direction::Up, sandbox_side.read_buf.len()).map_err(io::Error::other)?;
    to_server.write_all(&sandbox_side.read_buf).await?;
    let (mut from_sandbox, mut to_sandbox) = sandbox_side.io.into_inner().into_inner().into_split();
    let up = relay(&mut from_sandbox, &mut to_server, (tracked, Direction::Up));
    let down = relay(&mut from_server, &mut to_sandbox, (tracked, Direction::Down));
    tokio::try_join!(up, down).map(drop)
}

/// Relays one direction at the pace of the slower side, and shuts the writer down at the end.
async fn relay(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    counted: (&TrackedConnection, Direction),
) -> io::Result<()> {
    let (tracked, direction) = counted;
    let mut buffer = vec![0; BUFFER_MIN_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        tracked.count(direction, read).map_err(io::Error::other)?;
        to.write_all(&buffer[..read]).await?;
        if read < buffer.len() {
            continue;
        }
        buffer.resize(BUFFER_MAX_BYTES, 0);
        if read == BUFFER_MAX_BYTES
            && let Some(pipe) = SplicePipe::open()
            && splice(&pipe, from, to, counted).await? == SpliceEnd::Eof
        {
            return to.shutdown().await;
        }
    }
}

#[derive(PartialEq, Eq)]
enum SpliceEnd {
    /// Few bytes come now, so copying is as good.
    SlowedDown,
    Eof,
}

/// Relays through the pipe while much data comes.
async fn splice(
    pipe: &SplicePipe,
    from: &OwnedReadHalf,
    to: &OwnedWriteHalf,
    (tracked, direction): (&TrackedConnection, Direction),
) -> io::Result<SpliceEnd> {
    loop {
        let received = pipe.fill(from.as_ref()).await?;
        if received == 0 {
            return Ok(SpliceEnd::Eof);
        }
        tracked.count(direction, received).map_err(io::Error::other)?;
        pipe.drain(to.as_ref(), received).await?;
        if received < BUFFER_MIN_BYTES {
            return Ok(SpliceEnd::SlowedDown);
        }
    }
}
