//! Tests of the edge over fake sandboxes: they run, nothing listens in them, and their PID 1 sends no valid
//! status.

use super::{
    Edge, EdgeParts, PreviewAuth,
    error_page::{Format, Visitor},
    forward::dial_failed,
    limits, serve,
    serve::serve_http2,
};
use crate::{
    core::{PassSigner, Preview, Previews, Scheme},
    driver::{Driver, fake::FakeDriver},
    preview_links::PreviewLinks,
    reconcile::{
        Clock, PreviewTarget, Timing,
        tests::fixture::{new_sandbox, open, timing},
    },
};
use hyper::{HeaderMap, Method};
use protocol::api::{SandboxSpec, Visibility};
use std::{
    io::ErrorKind,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

struct EdgeFixture {
    edge: Arc<Edge>,
    driver: Arc<FakeDriver>,
    closing: CancellationToken,
    _dir: TempDir,
}

impl EdgeFixture {
    async fn new() -> Self {
        let (dir, driver) = (tempfile::tempdir().unwrap(), Arc::new(FakeDriver::default()));
        // Long deadlines, so that no timeout interferes.
        let at_rest = Timing { up_ms: 30_000, down_ms: 30_000, inspect_every_ms: 600_000, ..timing(0) };
        let fleet = open(&driver, dir.path(), at_rest).await;
        let previews = Previews {
            domain: "localhost".into(),
            scheme: Scheme::Http,
            port: 80,
            visibility: Visibility::Public,
        };
        let links = PreviewLinks::new(fleet.store().clone(), PassSigner::new(&[7; 32], previews.clone()));
        let auth = PreviewAuth::new(links, "slipway_admin", previews.clone(), Clock::new());
        let closing = CancellationToken::new();
        let edge = Edge::start(EdgeParts { fleet, previews, auth, tls: None }, closing.clone()).unwrap();
        Self { edge, driver, closing, _dir: dir }
    }

    /// Creates a sandbox and waits until it runs.
    async fn site(&self, number: u64) -> Arc<PreviewTarget> {
        let fleet = &self.edge.fleet;
        let id = fleet.create(new_sandbox(fleet, number, &SandboxSpec::default())).await.unwrap().id;
        fleet.wake(&id).await.unwrap();
        fleet.preview_target(&id).unwrap()
    }

    /// Opens connections that have sent these bytes; returns them and the future of the server.
    async fn connected<const N: usize>(
        &self,
        first: [&[u8]; N],
    ) -> ([TcpStream; N], impl Future<Output = ()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, self.edge.clone()));
        let streams = first.map(|first| async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(first).await.unwrap();
            stream
        });
        let mut said = Vec::new();
        for stream in streams {
            said.push(stream.await);
        }
        let Ok(said) = said.try_into() else { unreachable!("as many as there were") };
        (said, async { serving.await.unwrap() })
    }
}

#[tokio::test]
async fn a_sandbox_has_few_wakes_and_none_without_watchers() {
    let fixture = EdgeFixture::new().await;
    let (site, other) = (fixture.site(1).await, fixture.site(2).await);
    let wake = |site: &Arc<PreviewTarget>, port| fixture.edge.wake(site, Preview { sandbox: site.id, port });
    let most = u16::try_from(limits::WAKES_MAX).unwrap();
    let wakes: Vec<_> = (0..most).map(|number| wake(&site, 3000 + number)).collect();
    assert!(wakes.iter().all(Option::is_some));
    assert!(wake(&site, 4000).is_none(), "one too many");
    assert!(wake(&site, 3000).is_some(), "already running");
    assert!(wake(&other, 4000).is_some(), "of another sandbox");
    let watched = fixture.edge.running_wake(Preview { sandbox: site.id, port: 3000 });
    drop(wakes);
    let few = async {
        while wake(&site, 4000).is_none() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, few).await.expect("wakes without watchers go on");
    assert!(
        watched.is_some() && fixture.edge.running_wake(Preview { sandbox: site.id, port: 3000 }).is_some()
    );
    fixture.closing.cancel();
}

#[tokio::test]
async fn status_requests_to_a_silent_sandbox_do_not_queue_up() {
    let fixture = EdgeFixture::new().await;
    let site = fixture.site(1).await;
    fixture.driver.freeze(&site.id).await.unwrap();
    let started = Instant::now();
    let statuses = tokio::join!(site.status(), site.status(), site.status(), site.status(), site.status());
    assert!(matches!(statuses, (None, None, None, None, None)));
    // A single status request takes two seconds to time out.
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    fixture.closing.cancel();
}

#[tokio::test]
async fn visits_have_a_limit_and_so_have_pages_that_wait_for_one_sandbox() {
    let fixture = EdgeFixture::new().await;
    let (site, other) = (fixture.site(1).await, fixture.site(2).await);
    let free = fixture.edge.visits.available_permits();
    let others =
        fixture.edge.visits.clone().try_acquire_many_owned(u32::try_from(free - 1).unwrap()).unwrap();
    let last = fixture.edge.visit(&site);
    assert!(last.is_some() && fixture.edge.visit(&other).is_none());
    drop(last);
    assert!(fixture.edge.visit(&other).is_some());
    drop(others);
    let waiting: Vec<_> = std::iter::from_fn(|| site.wait()).take(limits::WAITING_PAGES_MAX).collect();
    assert!(waiting.len() < limits::WAITING_PAGES_MAX, "one sandbox takes all permits");
    assert!(other.wait().is_some());
    fixture.closing.cancel();
}

#[tokio::test]
async fn a_client_that_sent_too_little_and_leaves_is_disconnected() {
    let fixture = EdgeFixture::new().await;
    let ([mut stream], _serving) = fixture.connected([b"PRI"]).await;
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let ended = timeout(limits::HEAD_MAX / 2, stream.read_to_end(&mut rest)).await;
    ended.expect("it stays connected").unwrap();
    fixture.closing.cancel();
}

#[tokio::test]
async fn connections_without_a_request_do_not_delay_shutdown() {
    let fixture = EdgeFixture::new().await;
    let asks = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let ([mut silent, mut unclear, mut asking], serving) = fixture.connected([b"", b"PRI", asks]).await;
    // The other connections were accepted before this one.
    asking.read_to_end(&mut Vec::new()).await.unwrap();
    let started = Instant::now();
    fixture.closing.cancel();
    for stream in [&mut silent, &mut unclear] {
        let read = timeout(PATIENCE, stream.read(&mut [0])).await.expect("it is closed");
        assert!(matches!(read, Ok(0) | Err(_)));
    }
    serving.await;
    assert!(started.elapsed() < limits::DRAIN_MAX, "they were cut off");
}

#[tokio::test]
async fn a_dial_that_was_not_tried_is_not_reported_as_a_closed_port() {
    let fixture = EdgeFixture::new().await;
    let site = fixture.site(1).await;
    let preview = Preview { sandbox: site.id, port: 3000 };
    let visitor = Visitor { preview, format: Format::of(&Method::GET, &HeaderMap::new()), trusted: true };
    for (kind, wanted) in [(ErrorKind::ResourceBusy, "too_many"), (ErrorKind::ConnectionRefused, "timed_out")]
    {
        let unserved = dial_failed(&kind.into());
        let response = fixture.edge.error_response(&visitor, &site, unserved).await;
        assert_eq!(response.headers()["x-slipway-error"], wanted, "{kind}");
    }
    fixture.closing.cancel();
}

/// An HTTP/2 client that answers pings and requests nothing.
async fn idle_http2_client(mut stream: DuplexStream) {
    const PING: u8 = 6;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    while stream.read_exact(&mut frame).await.is_ok() {
        let mut rest = vec![0; usize::from(frame[1]) << 8 | usize::from(frame[2])];
        stream.read_exact(&mut rest).await.unwrap();
        if frame[3] == PING && frame[4] == 0 {
            frame[4] = 1;
            stream.write_all(&[&frame[..], &rest].concat()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_http_2_client_without_requests_is_disconnected() {
    let fixture = EdgeFixture::new().await;
    let (theirs, ours) = duplex(64 << 10);
    tokio::time::pause();
    let served = async { tokio::join!(idle_http2_client(theirs), serve_http2(ours, fixture.edge.clone())) };
    let (_, ended) = timeout(3 * limits::HEAD_MAX, served).await.expect("it stays connected");
    ended.unwrap();
    fixture.closing.cancel();
}
