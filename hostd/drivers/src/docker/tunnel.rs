//! A byte stream to a loopback port of a sandbox whose network namespace hostd cannot enter: through
//! runtimed, over its control socket.

use crate::{Stream, local::limits::DIAL_MAX_MS};
use hostd_core::AppPort;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{CONNECTION, HOST, UPGRADE},
};
use hyper_util::rt::TokioIo;
use protocol::{ErrorBody, ErrorCode};
use std::{io, time::Duration};
use tokio::time::timeout;

const PROTOCOL: &str = "slipway-tunnel";
/// Limits on a response that refuses the tunnel.
const HEAD_MAX_BYTES: usize = 16 << 10;
const REFUSAL_MAX_BYTES: usize = 256 << 10;

/// Opens a tunnel. `control` is a new connection to the control socket and becomes the stream.
pub async fn open(control: Box<dyn Stream>, port: AppPort) -> io::Result<Box<dyn Stream>> {
    let opened = timeout(Duration::from_millis(DIAL_MAX_MS), switch(control, port)).await;
    opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn switch(control: Box<dyn Stream>, port: AppPort) -> io::Result<Box<dyn Stream>> {
    let io = TokioIo::new(control);
    let handshake = http1::Builder::new().max_buf_size(HEAD_MAX_BYTES).handshake(io).await;
    let (mut sender, connection) = handshake.map_err(io::Error::other)?;
    // Ends with the tunnel, or with the response that refuses it.
    tokio::spawn(connection.with_upgrades());
    let request = Request::get(format!("/v1/tunnel/{port}"))
        .header(HOST, "runtimed")
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, PROTOCOL)
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(response).await);
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(io::Error::other)?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

/// Maps a refusal to the error that a direct connection would have had.
async fn refusal(response: Response<Incoming>) -> io::Error {
    let status = response.status();
    let body = Limited::new(response.into_body(), REFUSAL_MAX_BYTES).collect().await;
    let reply = body.ok().and_then(|body| serde_json::from_slice::<ErrorBody>(&body.to_bytes()).ok());
    match reply {
        Some(reply) if reply.error.code == ErrorCode::PortClosed => {
            io::Error::new(io::ErrorKind::ConnectionRefused, reply.error.message)
        }
        Some(reply) => io::Error::other(reply.error.message),
        None => io::Error::other(format!("the sandbox opens no tunnel: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    /// A runtimed that sends one response and then echoes.
    async fn runtimed(mut outside: DuplexStream, response: &'static str) -> String {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(outside.read_u8().await.expect("a request"));
        }
        outside.write_all(response.as_bytes()).await.expect("written");
        let (mut from, mut to) = tokio::io::split(outside);
        let _ = tokio::io::copy(&mut from, &mut to).await;
        String::from_utf8(head).expect("a head is text").to_ascii_lowercase()
    }

    fn port(port: u16) -> AppPort {
        AppPort::new(port).expect("not hostd's own")
    }

    #[tokio::test]
    async fn bytes_pass_through_the_tunnel_both_ways() {
        let (near, far) = duplex(4096);
        let switching =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: slipway-tunnel\r\n\r\n";
        let served = tokio::spawn(runtimed(far, switching));
        let mut stream = open(Box::new(near), port(3000)).await.expect("opened");
        stream.write_all(b"hello").await.expect("written");
        let mut back = [0; 5];
        stream.read_exact(&mut back).await.expect("read");
        assert_eq!(&back, b"hello");
        drop(stream);
        let head = served.await.expect("served");
        assert!(head.starts_with("get /v1/tunnel/3000 http/1.1\r\n"), "{head}");
        assert!(head.contains("upgrade: slipway-tunnel"), "{head}");
    }

    #[tokio::test]
    async fn a_closed_port_is_connection_refused_and_anything_else_an_error() {
        let closed = "HTTP/1.1 502 Bad Gateway\r\ncontent-type: application/json\r\ncontent-length: 77\r\n\r\n\
            {\"error\":{\"code\":\"port_closed\",\"message\":\"nothing listens\",\"retryable\":true}}";
        for (response, kind) in [
            (closed, io::ErrorKind::ConnectionRefused),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", io::ErrorKind::Other),
            ("garbage\r\n\r\n", io::ErrorKind::Other),
        ] {
            let (near, far) = duplex(4096);
            tokio::spawn(runtimed(far, response));
            let error = open(Box::new(near), port(1)).await.err().expect("no tunnel");
            assert_eq!(error.kind(), kind, "{response}: {error}");
        }
    }
}
