use crate::egress::{Egress, EgressParts, Profiles, SandboxEgress};
use hostd_core::{Blueprint, Previews, Scheme, egress::Exceptions};
use hostd_net::{
    backpressure::WindowIo,
    outbound::{DnsResolver, OutboundConnector},
};
use hostd_store::{
    EventFilter, SandboxRecord, Store,
    fixture::{empty, insert, new_sandbox},
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use protocol::api::{EgressRules, Network, Visibility};
use serde_json::Value;
use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Long enough for every machine; bounds a test that hangs.
pub const LONG: Duration = Duration::from_secs(30);

pub struct EgressFixture {
    pub egress: Egress,
    pub store: Store,
    pub record: watch::Sender<Arc<SandboxRecord>>,
    pub proxy: SocketAddr,
    pub sandbox_egress: Arc<SandboxEgress>,
    closing: CancellationToken,
    tasks: JoinSet<()>,
    _dir: TempDir,
}

impl EgressFixture {
    /// `except` lists hosts that may be reached although they are not public, since tests have loopback only.
    pub async fn new(except: &[String], names: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Self {
        let (dir, store) = empty();
        let mut new = new_sandbox(1, None);
        new.blueprint = Arc::new(Blueprint { network: Network::Proxy, ..Blueprint::sample() });
        let record = insert(&store, new).await;
        let parts = EgressParts {
            connector: OutboundConnector::with_resolver(DnsResolver::fixed(names)),
            previews: Previews {
                domain: "apps.test".into(),
                scheme: Scheme::Http,
                port: 80,
                visibility: Visibility::Public,
            },
            profiles: Profiles::load(store.clone()).await.expect("profiles"),
            exceptions: Exceptions::parse(except).expect("good exceptions"),
            store: store.clone(),
        };
        let egress = Egress::new(parts);
        let (record, watching) = watch::channel(Arc::new(record));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let proxy = listener.local_addr().expect("its address");
        let closing = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let sandbox_egress = egress.sandbox_egress(watching);
        tasks.spawn(serve(listener, egress.clone(), sandbox_egress.clone()));
        let (recorder, until) = (egress.clone(), closing.clone());
        tasks.spawn(async move { recorder.run_recorder(until).await });
        Self { egress, store, record, proxy, sandbox_egress, closing, tasks, _dir: dir }
    }

    /// Changes the rules as the API does.
    pub fn set(&self, rules: EgressRules) {
        self.record.send_modify(|record| {
            let blueprint = Blueprint { egress: rules, ..(*record.blueprint).clone() };
            let mut changed = (**record).clone();
            changed.blueprint = Arc::new(blueprint);
            *record = Arc::new(changed);
        });
    }

    pub fn set_network(&self, network: Network) {
        self.record.send_modify(|record| {
            let blueprint = Blueprint { network, ..(*record.blueprint).clone() };
            let mut changed = (**record).clone();
            changed.blueprint = Arc::new(blueprint);
            *record = Arc::new(changed);
        });
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.expect("the proxy listens")
    }

    /// Sends a whole request, and returns everything until the end of the connection.
    pub async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("the proxy reads");
        stream.shutdown().await.expect("the proxy reads");
        let mut response = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut response)).await.expect("an answer in time");
        String::from_utf8_lossy(&response).into_owned()
    }

    /// An open tunnel, or the head of the refusal.
    pub async fn tunnel(&self, to: &str) -> Result<TcpStream, String> {
        let mut stream = self.connect().await;
        let request = format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the proxy reads");
        let head = head(&mut stream).await;
        if head.starts_with("HTTP/1.1 200") { Ok(stream) } else { Err(head) }
    }

    /// The bytes that were moved, once no connection is open.
    pub async fn used(&self) -> u64 {
        let used = async {
            loop {
                let record = self.record.borrow().clone();
                let used = self.egress.used_bytes(&record).await.expect("the store");
                if used > 0 && self.sandbox_egress.is_idle() {
                    break used;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, used).await.expect("recorded in time")
    }

    /// The recorded events, after shutdown.
    pub async fn events(mut self) -> Vec<Value> {
        self.closing.cancel();
        // Connections do not end by themselves; the recorder does.
        let _ = timeout(LONG, self.tasks.join_next()).await.expect("the recorder ends");
        let all = self.store.events(EventFilter::default(), 0, 1000).await.expect("the log");
        all.into_iter().filter(|event| event.kind == "egress").map(|event| event.data).collect()
    }
}

async fn serve(listener: TcpListener, egress: Egress, sandbox_egress: Arc<SandboxEgress>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (egress, sandbox_egress) = (egress.clone(), sandbox_egress.clone());
        connections.spawn(async move {
            let then = Arc::new(Mutex::new(None));
            let after = then.clone();
            let service = service_fn(move |request| {
                let (egress, sandbox_egress, after) = (egress.clone(), sandbox_egress.clone(), after.clone());
                async move {
                    let answered = egress.serve(&sandbox_egress, request).await;
                    *after.lock().expect("no panic") = answered.tunnel;
                    Ok::<_, Infallible>(answered.response)
                }
            });
            // Served as by a door: a tunnel takes the stream over.
            let io = TokioIo::new(WindowIo::new(stream, Arc::default()));
            let connection = http1::Builder::new().half_close(true).serve_connection(io, service);
            let _ = connection.with_upgrades().await;
            let then = then.lock().expect("no panic").take();
            if let Some(then) = then {
                then.await;
            }
        });
    }
}

/// Reads up to the empty line.
pub async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(LONG, stream.read_u8()).await.expect("in time");
        let Ok(byte) = byte else { break };
        head.push(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A server that gives every request the same response, and the heads that it received.
pub async fn server(says: &str) -> (SocketAddr, Arc<Mutex<Vec<String>>>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let received = Arc::new(Mutex::new(Vec::new()));
    let (seen, says, mut tasks) = (received.clone(), says.to_owned(), JoinSet::new());
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let head = head(&mut stream).await;
            seen.lock().expect("no panic").push(head);
            let _ = stream.write_all(says.as_bytes()).await;
        }
    });
    (address, received, tasks)
}
