use super::*;
use http_body_util::{BodyExt, StreamBody};
use hyper::{Request, Response, body::Incoming, client, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, sync::atomic::Ordering};
use tokio::{
    io::{AsyncWriteExt, duplex},
    task::yield_now,
};

const BODY_BYTES: usize = 1 << 20;
/// Bytes that the "socket" takes without a reader.
const SOCKET_BYTES: usize = 1 << 10;

/// A body in chunks of this size, and how many bytes were taken of it.
fn source(
    piece: usize,
) -> (impl Body<Data = Bytes, Error = Infallible> + Unpin + Send + use<>, Arc<AtomicUsize>) {
    let taken = Arc::<AtomicUsize>::default();
    let count = taken.clone();
    let pieces = (0..BODY_BYTES.div_ceil(piece)).map(move |number| {
        let length = piece.min(BODY_BYTES - number * piece);
        count.fetch_add(length, Ordering::Relaxed);
        Ok(Frame::data(Bytes::from(vec![b'x'; length])))
    });
    (StreamBody::new(futures_util::stream::iter(pieces)), taken)
}

/// Lets everything happen that needs no other reader or writer.
async fn settle() {
    for _ in 0..2_000 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_reader_that_stalls_takes_one_window_of_an_answer_and_gets_the_rest_later() {
    for piece in [10, 4_000, 16 << 10, READ_MAX_BYTES] {
        let (near, mut far) = duplex(SOCKET_BYTES);
        let (body, taken) = source(piece);
        let window = Arc::<WriteWindow>::default();
        let io = TokioIo::new(WindowIo::new(near, window.clone()));
        let body = std::sync::Mutex::new(Some(WindowBody::to(window, body)));
        let service = service_fn(move |_: Request<Incoming>| {
            let body = body.lock().unwrap().take().expect("asked once");
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let connection = http1::Builder::new().serve_connection(io, service);
        let reader = async {
            far.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
            settle().await;
            let held = taken.load(Ordering::Relaxed);
            let most = SOCKET_BYTES + WINDOW_BYTES + piece;
            assert!(held <= most, "{held} bytes were taken in pieces of {piece}, at most {most} may be");
            let mut answer = Vec::new();
            far.read_to_end(&mut answer).await.unwrap();
            let came = answer.iter().filter(|byte| **byte == b'x').count();
            assert!(came >= BODY_BYTES, "{came} bytes came in pieces of {piece}");
        };
        let (ended, ()) = tokio::join!(connection, reader);
        ended.unwrap();
    }
}

/// A connection that responds with this body, and its other end, on which a request was sent.
async fn answering(
    body: impl Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
    window: Arc<WriteWindow>,
) -> (tokio::task::JoinHandle<()>, tokio::io::DuplexStream) {
    let (near, mut far) = duplex(SOCKET_BYTES);
    let io = TokioIo::new(WindowIo::new(near, window.clone()));
    let transfer = Transfer::new(Some(Arc::default()), window);
    let body = std::sync::Mutex::new(Some(WindowBody::new(body, transfer)));
    let service = service_fn(move |_: Request<Incoming>| {
        let body = body.lock().unwrap().take().expect("asked once");
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let connection = tokio::spawn(async move {
        let _ = http1::Builder::new().serve_connection(io, service).await;
    });
    far.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    settle().await;
    (connection, far)
}

#[tokio::test]
async fn few_long_bodies_are_moved_in_large_pieces_until_the_socket_has_them() {
    let all = u32::try_from(LARGE_BODIES_MAX).unwrap();
    let permits = LARGE_BODIES.acquire_many(all).await.unwrap();
    let window = Arc::<WriteWindow>::default();
    let (body, taken) = source(READ_MAX_BYTES);
    let (connection, far) = answering(body, window.clone()).await;
    // The length of the body is not known: it would need a permit only when enough of it was moved, which is
    // never.
    assert!(taken.load(Ordering::Relaxed) <= SOCKET_BYTES + WINDOW_BYTES + READ_MAX_BYTES);
    drop((connection, far));

    let long = || http_body_util::Full::new(Bytes::from(vec![b'x'; BODY_BYTES]));
    let (_, mut far) = answering(long(), window.clone()).await;
    assert!(window.permit().is_none(), "all permits are taken");
    far.read_to_end(&mut Vec::new()).await.unwrap();
    drop(permits);

    let window = Arc::<WriteWindow>::default();
    let (connection, mut far) = answering(long(), window.clone()).await;
    assert!(window.permit().is_some(), "HTTP has all of the body, and the socket has not");
    far.read_to_end(&mut Vec::new()).await.unwrap();
    connection.await.unwrap();
    assert!(window.permit().is_none(), "the socket has all of it");
    assert_eq!(window.read_max_bytes(), READ_MAX_BYTES as u64);
}

#[tokio::test]
async fn what_is_not_read_of_an_answer_stays_with_its_sender() {
    let (near, mut far) = duplex(SOCKET_BYTES);
    let io = TokioIo::new(WindowIo::new(near, Arc::default()));
    let (mut sender, connection) = client::conn::http1::handshake(io).await.unwrap();
    let (sent, mut incoming) = (AtomicUsize::new(0), None);
    let app = async {
        far.read_exact(&mut [0; 16]).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
        far.write_all(head.as_bytes()).await.unwrap();
        while sent.load(Ordering::Relaxed) < BODY_BYTES {
            far.write_all(&[b'x'; 512]).await.unwrap();
            sent.fetch_add(512, Ordering::Relaxed);
        }
        std::future::pending::<()>().await;
    };
    let reader = async {
        let request = Request::get("/").body(http_body_util::Empty::<Bytes>::new()).unwrap();
        incoming = Some(sender.send_request(request).await.unwrap().into_body());
        settle().await;
        let held = sent.load(Ordering::Relaxed);
        assert!(held <= 2 * (SOCKET_BYTES + READ_MAX_BYTES), "{held} bytes were read ahead");
        let whole = incoming.take().expect("a response").collect().await.unwrap().to_bytes();
        assert_eq!(whole.len(), BODY_BYTES);
    };
    tokio::select! {
        () = reader => {}
        () = app => unreachable!("it waits at its end"),
        ended = connection => panic!("it ended before the answer was read: {ended:?}"),
    }
}

/// hyper doubles a buffer that a read filled.
#[tokio::test]
async fn no_read_fills_a_buffer_of_hyper() {
    let (near, mut far) = duplex(1 << 20);
    far.write_all(&vec![b'x'; 1 << 19]).await.unwrap();
    let mut io = WindowIo::new(near, Arc::default());
    let mut largest = Vec::with_capacity(1 << 20);
    assert_eq!(io.read_buf(&mut largest).await.unwrap(), READ_MAX_BYTES);
    assert!((READ_MAX_BYTES + 1).is_power_of_two());
}

#[test]
fn small_pieces_are_copied_only_behind_others() {
    let window = WriteWindow::default();
    let buffer = Bytes::from(vec![b'x'; READ_MAX_BYTES]);
    let shares = |piece: &Bytes| buffer.as_ptr_range().contains(&piece.as_ptr());
    assert!(shares(&window.count(buffer.slice(..10))), "the first one");
    assert!(!shares(&window.count(buffer.slice(..10))), "the second one");
    assert!(shares(&window.count(buffer.slice(..COPIED_MAX_BYTES))), "a large one");
    window.flushed();
    assert!(shares(&window.count(buffer.slice(..10))), "the first one after a flush");
}
