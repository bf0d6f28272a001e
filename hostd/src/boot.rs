//! The life of the hostd process: bring-up, serving, draining.

mod drivers;
mod git_settings;
mod image_collection;
mod parts;
mod registry_logins;
mod retention;
mod trace_export;

use crate::{
    allocator,
    api::{self, Api, ImageBackend, Listener},
    command::Failure,
    config::Config,
    inside::InsideServer,
    reconcile::Fleet,
};
use hostd_core::{Scheme, limits};
use hostd_edge::{Edge, EdgeParts, PreviewAuth, PreviewTargets, preview_links::PreviewLinks};
use hostd_net::{
    connection_threads::ConnectionThreads,
    tls::{PairNames, Tls},
};
use hostd_store::Store;
use image_collection::collect_periodically;
use nix::{
    fcntl::{Flock, FlockArg},
    sys::resource::{Resource, getrlimit, setrlimit},
};
use parts::Parts;
use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use trace_export::{Collector, TraceExport};
use tracing::{info, warn};

pub const DATABASE: &str = "slipway.db";
const SOCKET: &str = "hostd.sock";

const API_TLS: PairNames =
    PairNames { listener: "api", cert_key: "SLIPWAY_API_TLS_CERT", key_key: "SLIPWAY_API_TLS_KEY" };
const PREVIEW_TLS: PairNames = PairNames {
    listener: "preview",
    cert_key: "SLIPWAY_PREVIEW_TLS_CERT",
    key_key: "SLIPWAY_PREVIEW_TLS_KEY",
};

/// Longest wait for blocking threads at the end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

pub fn serve(config: Config) -> Result<(), Failure> {
    log_to_stderr();
    raise_open_files();
    let _lock = lock(&config.data_dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed("start its threads", &error))?;
    let ended = runtime.block_on(run(config));
    // Unfinished removals of files are continued by the next hostd.
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    ended
}

/// Raises the limit of open files: each sandbox needs a few descriptors, and the default soft limit is often
/// 1024. Processes in sandboxes have limits of their own.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        warn!(%error, "failed to raise the limit of open files");
    }
}

/// Locks the data directory for one hostd. The lock ends with the process, but a child that was just being
/// started may hold it for a moment longer.
pub fn lock(data_dir: &Path) -> Result<Flock<File>, Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(data_dir)
        .map_err(|error| failed(&format!("make {}", data_dir.display()), &error))?;
    let path = data_dir.join("lock");
    let mut file = File::options()
        .create(true)
        .append(true)
        // A process that can open the file can lock it.
        .mode(0o600)
        .open(&path)
        .map_err(|error| failed("open its lock", &error))?;
    let deadline = Instant::now() + Duration::from_millis(limits::LOCK_WAIT_MAX_MS);
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, _)) if Instant::now() < deadline => file,
            Err(_) => {
                let data_dir = data_dir.display();
                let message =
                    format!("SLIPWAY_DATA_DIR: another hostd uses {data_dir}; give this one its own");
                return Err(Failure::Usage(message));
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the release of a file lock cannot be awaited")]
        std::thread::sleep(Duration::from_millis(limits::LOCK_POLL_MS));
    }
}

async fn run(config: Config) -> Result<(), Failure> {
    let collector = Collector::from_environment()?;
    let api_tls = tls(config.api_tls.as_ref(), API_TLS)?;
    let preview_tls = tls(config.preview_tls.as_ref(), PREVIEW_TLS)?;
    let (parts, preview) = Parts::open(&config).await?;
    let (store, egress, disk) = (&parts.store, &parts.egress, &parts.disk);
    let threads = ConnectionThreads::start("inside")
        .map_err(|error| failed("start the threads of its listeners inside sandboxes", &error))?;
    let inside =
        InsideServer::new(parts.previews.clone(), parts.gateway.clone(), parts.git.clone(), egress.clone())
            .served_by(threads);
    let targets = PreviewTargets::default();
    let fleet = Fleet::open(parts.fleet(&config, inside, targets.clone())).await;
    let fleet = fleet.map_err(|error| Failure::Failed(error.to_string()))?;

    let closing = CancellationToken::new();
    let links = parts.preview_links();
    let edge = start_edge(&parts, (&fleet, targets), (links.clone(), preview_tls.clone()), &closing)?;
    let certificates = api_tls.iter().cloned().chain(preview_tls).collect();
    let traces = collector.map(|collector| TraceExport::start(collector, parts.files.instance.clone()));
    let observed = (certificates, traces.as_ref().map(TraceExport::tracer));
    let api = Api::new(parts.api(&config, observed, (fleet.clone(), links), &edge), closing.clone());
    let tcp = bind("SLIPWAY_API_BIND", config.api_bind).await?;
    let metrics = bind_metrics(config.metrics_bind).await?;
    if let Some(warning) = api.settings.clear_text_warning() {
        warn!("{warning}");
    }
    disk.ensure_free();
    let socket = config.data_dir.join(SOCKET);
    let unix = listen_unix_if_room(&socket)?;
    let mut signals = Signals::new()?;
    print_ready(&ready_line(&config, (&tcp, &preview, metrics.as_ref()))?);

    let api::Front { router, clients } = api::front(api.clone());
    edge.serve_clients(Arc::new(api::ClientsAtEdge(clients)));
    let metrics = api::serve_metrics(metrics, api.clone(), closing.clone());
    let tcp = api::serve(api_listener(tcp, api_tls), router.clone(), api.metrics.clone(), closing.clone());
    let unix = serve_unix(unix, &socket, (router, api.metrics.clone()), closing.clone());
    let preview = hostd_edge::serve(preview, edge.clone());
    let prune = edge.tidy();
    let background = work_in_background(&parts, &fleet, &config, &closing);
    let stop = async {
        let name = signals.next().await;
        info!(signal = name, "draining; sandboxes keep running");
        closing.cancel();
    };
    tokio::join!(tcp, unix, metrics, preview, prune, background, stop);
    api.finish().await;
    fleet.close().await;
    parts.git.finish().await;
    // Connections of sandboxes report their bytes when they end, so egress finishes after them.
    egress.finish().await;
    store.clone().close().await;
    if let Some(traces) = traces {
        traces.finish().await;
    }
    info!("stopped");
    Ok(())
}

fn start_edge(
    parts: &Parts,
    (fleet, targets): (&Fleet, PreviewTargets),
    (links, tls): (PreviewLinks, Option<Tls>),
    closing: &CancellationToken,
) -> Result<Arc<Edge>, Failure> {
    let auth = PreviewAuth::new(links, &parts.files.admin_token, parts.previews.clone(), parts.clock);
    let edge = EdgeParts {
        store: parts.store.clone(),
        targets,
        waker: Arc::new(fleet.clone()),
        clock: parts.clock,
        previews: parts.previews.clone(),
        auth,
        tls,
    };
    Edge::start(edge, closing.clone()).map_err(|error| failed("start the threads of previews", &error))
}

/// Does what hostd does by itself, until it ends.
async fn work_in_background(parts: &Parts, fleet: &Fleet, config: &Config, closing: &CancellationToken) {
    let kept = (config.history, config.audit_keep_ms());
    let maintenance = maintain(&parts.store, parts.images.clone(), config.image_keep_days);
    tokio::join!(
        parts.egress.run_recorder(closing.clone()),
        retention::run(fleet, &parts.store, kept, (parts.clock, closing)),
        parts.webhooks.run(closing.clone()),
        closing.run_until_cancelled(maintenance),
        watch_resources(fleet, closing),
    );
}

/// Keeps the database, the memory of hostd and the images small, for as long as it is polled.
async fn maintain(store: &Store, images: ImageBackend, image_keep_days: u64) {
    let images = collect_periodically(images, image_keep_days);
    tokio::join!(store.maintain_wal(), allocator::trim_periodically(), images);
}

/// Watches disk, memory and quotas until hostd ends.
async fn watch_resources(fleet: &Fleet, closing: &CancellationToken) {
    let watches = async { tokio::join!(fleet.watch_disk(), fleet.watch_memory(), fleet.watch_quotas()) };
    closing.run_until_cancelled(watches).await;
}

fn api_listener(tcp: TcpListener, tls: Option<Tls>) -> Listener {
    match tls {
        Some(tls) => Listener::Tls(tcp, tls),
        None => Listener::Tcp(tcp),
    }
}

async fn bind(key: &str, at: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(at).await;
    listener.map_err(|error| Failure::Usage(format!("{key}: could not listen on {at}: {error}")))
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(|error| failed("ask for its address", &error))
}

/// Loads the files of a listener that is served by TLS.
fn tls(files: Option<&(PathBuf, PathBuf)>, names: PairNames) -> Result<Option<Tls>, Failure> {
    let load = |(cert, key): &(PathBuf, PathBuf)| Tls::load(cert, key, names);
    files.map(load).transpose().map_err(|error| Failure::Usage(error.to_string()))
}

async fn bind_metrics(at: Option<SocketAddr>) -> Result<Option<TcpListener>, Failure> {
    match at {
        Some(at) => bind("SLIPWAY_METRICS_BIND", at).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the line that tells where the API, previews and metrics are served.
fn ready_line(
    config: &Config,
    (api, preview, metrics): (&TcpListener, &TcpListener, Option<&TcpListener>),
) -> Result<String, Failure> {
    let api_scheme = if config.api_tls.is_some() { Scheme::Https } else { Scheme::Http };
    let api = format!("{}://{}", api_scheme.word(), local_address(api)?);
    let preview = format!("{}://{}", scheme_of(config).word(), local_address(preview)?);
    let metrics = metrics.map(local_address).transpose()?;
    let metrics = metrics.map(|at| format!(" metrics=http://{at}/metrics")).unwrap_or_default();
    Ok(format!("ready api={api} preview={preview}{metrics}"))
}

/// Returns the scheme by which hostd serves previews.
fn scheme_of(config: &Config) -> Scheme {
    if config.preview_tls.is_some() { Scheme::Https } else { Scheme::Http }
}

/// Listens on the socket; `None` while the disk has no space for it.
fn listen_unix_if_room(socket: &Path) -> Result<Option<UnixListener>, Failure> {
    match listen_unix(socket) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(None),
        Err(error) => Err(failed(&format!("listen on {}", socket.display()), &error)),
    }
}

/// Listens on the socket, replacing the one of an earlier hostd. No process listens on that: this one holds
/// the lock.
fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves the API on the local socket, which on a full disk is created once there is space.
async fn serve_unix(
    mut bound: Option<UnixListener>,
    path: &Path,
    (router, metrics): (axum::Router, api::ApiMetrics),
    closing: CancellationToken,
) {
    while bound.is_none() {
        warn!(path = %path.display(), "disk full: local socket not created yet");
        tokio::select! {
            // Both futures only wait, so cancelling either is safe.
            () = closing.cancelled() => return,
            () = tokio::time::sleep(Duration::from_millis(limits::DISK_POLL_MS)) => bound = listen_unix(path).ok(),
        }
    }
    if let Some(unix) = bound {
        api::serve(Listener::Unix(unix), router, metrics, closing).await;
    }
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let open = |kind| signal(kind).map_err(|error| failed("listen for signals", &error));
        Ok(Self { terminate: open(SignalKind::terminate())?, interrupt: open(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            // Both futures only wait, so cancelling either is safe.
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn print_ready(line: &str) {
    // The parent process may have closed the pipe.
    let mut stdout = io::stdout();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

fn log_to_stderr() {
    let terminal = io::stderr().is_terminal();
    let level = match std::env::var("SLIPWAY_LOG").as_deref() {
        Ok("debug") => tracing::Level::DEBUG,
        Ok("warn") => tracing::Level::WARN,
        _ => tracing::Level::INFO,
    };
    let builder = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(level).with_ansi(terminal);
    if terminal {
        builder.init();
    } else {
        // A line has the spans around it, with the ids of the request.
        builder.json().with_current_span(false).with_span_list(true).init();
    }
}

fn failed(what: &str, error: &dyn std::error::Error) -> Failure {
    Failure::Failed(format!("could not {what}: {error}"))
}
