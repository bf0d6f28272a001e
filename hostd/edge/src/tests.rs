//! Tests of the edge over fake sandboxes: they run, nothing listens in them, and their PID 1 sends no valid
//! status.

use super::{
    Edge, EdgeParts, PreviewAuth, PreviewTarget, PreviewTargets, WakeError, Waker,
    error_page::{Format, Visitor},
    forward::dial_failed,
    limits,
    metrics::StatusClass,
    preview_links::PreviewLinks,
    serve,
    serve::serve_http2,
    traffic::Traffic,
};
use async_trait::async_trait;
use hostd_core::{PassSigner, Preview, Previews, Scheme, State};
use hostd_drivers::{
    Driver, LaunchRequest, ProgressSink, SandboxBadge,
    control::{Control, ControlPool},
    fake::FakeDriver,
};
use hostd_store::{
    Clock, SandboxRecord, Store,
    fixture::{empty, insert, new_sandbox},
};
use hyper::{HeaderMap, Method};
use protocol::api::{SandboxId, SandboxStatus, Visibility};
use std::{
    io::ErrorKind,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

/// A waker of sandboxes that are all awake.
struct Awake(Arc<FakeDriver>);

#[async_trait]
impl Waker for Awake {
    async fn wake(&self, id: &SandboxId) -> Result<Control, WakeError> {
        Ok(Control::new(*id, self.0.clone(), ControlPool::default()))
    }

    async fn thaw(&self, id: &SandboxId) -> Result<Control, WakeError> {
        self.wake(id).await
    }
}

struct EdgeFixture {
    edge: Arc<Edge>,
    driver: Arc<FakeDriver>,
    store: Store,
    /// A record is published as long as its sender lives.
    records: Mutex<Vec<watch::Sender<Arc<SandboxRecord>>>>,
    closing: CancellationToken,
    _dir: TempDir,
}

impl EdgeFixture {
    fn new() -> Self {
        let ((dir, store), driver) = (empty(), Arc::new(FakeDriver::default()));
        let previews = Previews {
            domain: "localhost".into(),
            scheme: Scheme::Http,
            port: 80,
            visibility: Visibility::Public,
        };
        let links = PreviewLinks::new(store.clone(), PassSigner::new(&[7; 32], previews.clone()));
        let auth = PreviewAuth::new(links, "slipway_admin", previews.clone(), Clock::new());
        let closing = CancellationToken::new();
        let parts = EdgeParts {
            store: store.clone(),
            targets: PreviewTargets::default(),
            waker: Arc::new(Awake(driver.clone())),
            clock: Clock::new(),
            previews,
            auth,
            tls: None,
        };
        let edge = Edge::start(parts, closing.clone()).unwrap();
        Self { edge, driver, store, records: Mutex::default(), closing, _dir: dir }
    }

    /// Creates a sandbox that runs.
    async fn target(&self, number: u64) -> Arc<PreviewTarget> {
        let mut record = insert(&self.store, new_sandbox(number, None)).await;
        record.state = State { status: SandboxStatus::Running, operation: None, ..record.state };
        let (id, name, owner) = (record.id, record.name.clone(), record.owner.clone());
        let badge = SandboxBadge { sandbox: id, name, owner, scope: None, created_ms: 0, details: None };
        let blueprint = record.blueprint.clone();
        let order = LaunchRequest { badge, attempt: 1, blueprint, progress: ProgressSink::default() };
        self.driver.launch(&order).await.unwrap();
        let (sender, record) = watch::channel(Arc::new(record));
        self.records.lock().unwrap().push(sender);
        let (pool, traffic) = (ControlPool::default(), Traffic::default());
        self.edge.targets.insert(PreviewTarget::new(record, pool, traffic, self.driver.clone()));
        self.edge.targets.get(&id).unwrap()
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
    let fixture = EdgeFixture::new();
    let (target, other) = (fixture.target(1).await, fixture.target(2).await);
    let wake =
        |target: &Arc<PreviewTarget>, port| fixture.edge.wake(target, Preview { sandbox: target.id, port });
    let most = u16::try_from(limits::WAKES_MAX).unwrap();
    let wakes: Vec<_> = (0..most).map(|number| wake(&target, 3000 + number)).collect();
    assert!(wakes.iter().all(Option::is_some));
    assert!(wake(&target, 4000).is_none(), "one too many");
    assert!(wake(&target, 3000).is_some(), "already running");
    assert!(wake(&other, 4000).is_some(), "of another sandbox");
    let watched = fixture.edge.running_wake(Preview { sandbox: target.id, port: 3000 });
    drop(wakes);
    let few = async {
        while wake(&target, 4000).is_none() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, few).await.expect("wakes without watchers go on");
    assert!(
        watched.is_some() && fixture.edge.running_wake(Preview { sandbox: target.id, port: 3000 }).is_some()
    );
    fixture.closing.cancel();
}

#[tokio::test]
async fn status_requests_to_a_silent_sandbox_do_not_queue_up() {
    let fixture = EdgeFixture::new();
    let target = fixture.target(1).await;
    fixture.driver.freeze(&target.id).await.unwrap();
    let started = Instant::now();
    let statuses =
        tokio::join!(target.status(), target.status(), target.status(), target.status(), target.status());
    assert!(matches!(statuses, (None, None, None, None, None)));
    // A single status request takes two seconds to time out.
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    fixture.closing.cancel();
}

#[tokio::test]
async fn visits_have_a_limit_and_so_have_pages_that_wait_for_one_sandbox() {
    let fixture = EdgeFixture::new();
    let (target, other) = (fixture.target(1).await, fixture.target(2).await);
    let free = fixture.edge.visits.available_permits();
    let others =
        fixture.edge.visits.clone().try_acquire_many_owned(u32::try_from(free - 1).unwrap()).unwrap();
    let last = fixture.edge.visit(&target);
    assert!(last.is_ok() && fixture.edge.visit(&other).is_err());
    drop(last);
    assert!(fixture.edge.visit(&other).is_ok());
    drop(others);
    let waiting: Vec<_> = std::iter::from_fn(|| target.wait()).take(limits::WAITING_PAGES_MAX).collect();
    assert!(waiting.len() < limits::WAITING_PAGES_MAX, "one sandbox takes all permits");
    assert!(other.wait().is_some());
    fixture.closing.cancel();
}

#[tokio::test]
async fn a_client_that_sent_too_little_and_leaves_is_disconnected() {
    let fixture = EdgeFixture::new();
    let ([mut stream], _serving) = fixture.connected([b"PRI"]).await;
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let ended = timeout(limits::HEAD_MAX / 2, stream.read_to_end(&mut rest)).await;
    ended.expect("it stays connected").unwrap();
    fixture.closing.cancel();
}

#[tokio::test]
async fn responses_are_counted_by_the_class_of_their_status() {
    let fixture = EdgeFixture::new();
    let request = b"GET / HTTP/1.1\r\nHost: nowhere.example\r\nConnection: close\r\n\r\n";
    let ([mut stream], _serving) = fixture.connected([request]).await;
    let mut response = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut response)).await.expect("a response").unwrap();
    assert!(response.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&response));
    let responses = &fixture.edge.metrics.responses;
    let counts = [StatusClass::Success, StatusClass::ClientError].map(|class| responses.of(class).get());
    assert_eq!(counts, [0, 1]);
    fixture.closing.cancel();
}

#[tokio::test]
async fn connections_without_a_request_do_not_delay_shutdown() {
    let fixture = EdgeFixture::new();
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
    let fixture = EdgeFixture::new();
    let target = fixture.target(1).await;
    let preview = Preview { sandbox: target.id, port: 3000 };
    let visitor = Visitor { preview, format: Format::of(&Method::GET, &HeaderMap::new()), trusted: true };
    for (kind, wanted) in [(ErrorKind::ResourceBusy, "too_many"), (ErrorKind::ConnectionRefused, "timed_out")]
    {
        let unserved = dial_failed(&kind.into());
        let response = fixture.edge.error_response(&visitor, &target, unserved).await;
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
    let fixture = EdgeFixture::new();
    let (theirs, ours) = duplex(64 << 10);
    tokio::time::pause();
    let served = async { tokio::join!(idle_http2_client(theirs), serve_http2(ours, fixture.edge.clone())) };
    let (_, ended) = timeout(3 * limits::HEAD_MAX, served).await.expect("it stays connected");
    ended.unwrap();
    fixture.closing.cancel();
}
