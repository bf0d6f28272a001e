//! Connections of both listeners, without TLS, and HTTP/1.1.

use super::*;
use std::sync::atomic::Ordering;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

async fn request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    // A refused connection may be answered before the request is sent.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut answer = vec![0; 1024];
    let length = stream.read(&mut answer).await.unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

fn serving_of(router: Router, shutdown: &CancellationToken) -> Serving {
    Serving { router, metrics: ApiMetrics::default(), shutdown: shutdown.clone() }
}

fn serving(all: usize, listener: Listener) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let shutdown = CancellationToken::new();
    let router = Router::new().fallback(async || "served");
    let server = tokio::spawn(serve_at_most(all, listener, serving_of(router, &shutdown)));
    (shutdown, server)
}

#[tokio::test]
async fn a_connection_over_the_limit_on_the_unix_socket_gets_503() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (shutdown, server) = serving(1, Listener::Unix(UnixListener::bind(&path).unwrap()));
    let mut first = UnixStream::connect(&path).await.unwrap();
    assert!(request(&mut first).await.ends_with("served"));
    let mut second = UnixStream::connect(&path).await.unwrap();
    assert!(request(&mut second).await.starts_with("HTTP/1.1 503 "));
    assert!(request(&mut first).await.ends_with("served"), "the first one still has its place");
    shutdown.cancel();
    server.await.unwrap();
    assert_eq!(first.read(&mut [0; 1]).await.unwrap(), 0, "an idle connection is closed in the shutdown");
}

#[tokio::test]
async fn idle_connections_without_a_token_are_evicted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Two permits for connections without a token.
    let (shutdown, server) = serving(16, Listener::Tcp(listener));
    let mut open = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert!(request(&mut stream).await.ends_with("served"));
        open.push(stream);
    }
    for (number, stream) in open.iter_mut().enumerate() {
        let served = request(stream).await.ends_with("served");
        assert_eq!(served, number >= 38, "connection {number}");
    }
    shutdown.cancel();
    server.await.unwrap();
}

#[tokio::test]
async fn a_stalled_reader_bounds_what_is_buffered() {
    const PIECE_BYTES: usize = 10_000;
    let taken = Arc::<std::sync::atomic::AtomicUsize>::default();
    let count = taken.clone();
    let router = Router::new().fallback(async move || {
        let endless = std::iter::repeat_with(move || {
            count.fetch_add(PIECE_BYTES, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![b'x'; PIECE_BYTES])
        });
        Body::from_stream(futures_util::stream::iter(endless))
    });
    let (near, mut far) = tokio::io::duplex(1024);
    let client = ClientConnection { peer: Peer::Unix { uid: 0 }, permit: None };
    let served = http1::serve(Box::new(near), client, serving_of(router, &CancellationToken::new()));
    let reading = async {
        far.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let held = taken.load(Ordering::Relaxed);
        assert!((1..=64 << 10).contains(&held), "{held} bytes were taken");
        // A reader that goes on gets more.
        far.read_exact(&mut vec![0; 1 << 20]).await.unwrap();
        assert!(taken.load(Ordering::Relaxed) > 1 << 20);
    };
    tokio::select! {
        _ = served => panic!("it ended"),
        () = reading => {}
    }
}

#[test]
fn the_raw_response_is_valid_http() {
    connections::check_raw_response(FULL_RESPONSE);
}
