//! A server for tests that writes the head and the body of each response in two pieces, and leaves Nagle's algorithm
//! on: as many dev servers do.

use super::{ClientStream, Http1Connection};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use std::{future::poll_fn, io, net::SocketAddr, pin::pin};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

pub const BODY: &str = "two pieces\n";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n";
/// Requests of one comparison.
const REQUESTS: usize = 30;
/// A delayed acknowledgement takes 40 ms, and a response less than one.
const SLOWER_MAX: u32 = 10;

/// Serves until the runtime ends.
pub async fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Ok(address)
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            stream.write_all(HEAD.as_bytes()).await?;
            stream.write_all(BODY.as_bytes()).await?;
        }
    }
}

pub async fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).await.expect("the server accepts");
    stream.set_nodelay(true).expect("a socket has the option");
    stream
}

/// Makes a request and returns the body of the response.
pub async fn get_on<T: ClientStream>(connection: &mut Http1Connection<T, Empty<Bytes>>) -> Bytes {
    let request = Request::get("/").header("host", "test").body(Empty::new()).expect("a valid request");
    let mut response = pin!(connection.queue_request(request));
    let response = poll_fn(|cx| connection.poll_response(cx, |cx| response.as_mut().poll(cx))).await;
    let mut body = pin!(response.expect("a response").into_body().collect());
    let body = poll_fn(|cx| connection.poll_response(cx, |cx| body.as_mut().poll(cx))).await;
    body.expect("a whole body").to_bytes()
}

/// Makes requests in a row on one connection, then each on a new one, and panics if the median of the former takes far
/// longer: a machine that stops for a moment changes no median. `request` opens a connection if it gets none.
pub async fn check_kept_is_no_slower<C>(mut request: impl AsyncFnMut(Option<C>) -> C) {
    let (mut kept, mut new) = (Vec::new(), Vec::new());
    let mut connection = request(None).await;
    for _ in 0..REQUESTS {
        let started = Instant::now();
        connection = request(Some(connection)).await;
        kept.push(started.elapsed());
    }
    for _ in 0..REQUESTS {
        let started = Instant::now();
        request(None).await;
        new.push(started.elapsed());
    }
    let (kept, new) = (median(kept), median(new));
    assert!(kept <= new * SLOWER_MAX, "a request: {kept:?} on one connection, {new:?} on a new one");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
