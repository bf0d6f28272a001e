//! Clients that are answered before they have sent everything.

use super::*;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

const BODY_BYTES: usize = 32 << 20;

/// A client of a server that refuses every request without a look at its body.
async fn refusing_server() -> (TcpStream, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let server = tokio::spawn(async move {
        let unread = UnreadBody::default();
        let io = TokioIo::new(LingeringStream::new(stream, unread.clone()));
        let service = service_fn(move |request: Request<Incoming>| {
            drop(request.map(|body| unread.watch(body)));
            let mut refusal = Response::new(Full::new(Bytes::from_static(b"refused")));
            *refusal.status_mut() = StatusCode::CONFLICT;
            async { Ok::<_, Infallible>(refusal) }
        });
        let _ = http1::Builder::new().serve_connection(io, service).await;
    });
    (client, server)
}

async fn send(client: &mut TcpStream, head: &str) {
    client.write_all(format!("POST / HTTP/1.1\r\nhost: x\r\n{head}\r\n").as_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_sends_everything_first_reads_the_answer() {
    let (mut client, server) = refusing_server().await;
    send(&mut client, &format!("content-length: {BODY_BYTES}\r\n")).await;
    // The answer is there before the body is, and is read after it.
    assert_eq!(client.peek(&mut [0]).await.unwrap(), 1);
    client.write_all(&vec![0; BODY_BYTES]).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.ends_with("refused"), "{answer}");
    drop(client);
    server.await.unwrap();
}

#[tokio::test]
async fn a_client_that_neither_sends_nor_closes_is_closed_in_the_end() {
    let (mut client, server) = refusing_server().await;
    send(&mut client, "content-length: 9\r\n").await;
    client.read_to_end(&mut Vec::new()).await.unwrap();
    tokio::time::pause();
    server.await.unwrap();
}

#[tokio::test]
async fn a_connection_without_an_unread_body_is_closed_at_once() {
    let (mut client, server) = refusing_server().await;
    send(&mut client, "connection: close\r\n").await;
    // The client does not close.
    server.await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
}
