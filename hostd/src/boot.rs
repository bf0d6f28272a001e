//! The life of the hostd process: bring-up, serving, draining.

mod drivers;

use crate::{
    agents::Agents,
    allocator,
    api::{self, Api, ImageBackend, Listener},
    command::Failure,
    config::{self, Config},
    connection_threads::ConnectionThreads,
    core::{Defaults, PassSigner, Previews, Scheme},
    disk_space::DiskSpace,
    edge::{self, Edge, EdgeParts, PreviewAuth, Tls},
    egress::{Egress, EgressParts, Profiles},
    gateway::Gateway,
    identity_files::{IdentityFiles, load_or_create},
    inside::InsideServer,
    limits,
    models::Models,
    outbound::OutboundConnector,
    preview_links::PreviewLinks,
    reconcile::{Fleet, FleetParts, Timing},
    store::{OpenError, Store},
};
use drivers::OpenedDrivers;
use nix::{
    fcntl::{Flock, FlockArg},
    sys::resource::{Resource, getrlimit, setrlimit},
};
use protocol::api::{Network, Visibility};
use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub const DATABASE: &str = "slipway.db";
const SOCKET: &str = "hostd.sock";

/// Longest wait for blocking threads at the end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);
/// Interval between two runs of retention.
const RETENTION_INTERVAL: Duration = Duration::from_secs(3600);

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
    let disk = DiskSpace::open(&config.data_dir, config.disk_floor_mb.map(|mb| mb.saturating_mul(1 << 20)));
    // Frees space for the writes of the start on a full disk.
    disk.ensure_free();
    let files =
        load_or_create(&config.data_dir).map_err(|error| failed("write its identity files", &error))?;
    let store = open_store(&config.data_dir.join(DATABASE), &disk).await?;
    let agents =
        Agents::open(config.agents.clone(), config.agents_dir.as_deref(), config.briefing_file.as_deref());
    let agents = agents.map_err(|error| Failure::Usage(error.to_string()))?;
    disk.ensure_free();
    let OpenedDrivers { drivers, default, images } = drivers::open(&config, &files, &agents).await?;
    let timing = Timing { idle_ms: config.idle_s.saturating_mul(1000), ..Timing::default() };
    let tls = tls(&config)?;
    let preview = bind("SLIPWAY_PREVIEW_BIND", config.preview_bind).await?;
    let previews = previews(&config, local_address(&preview)?.port());
    let models = Models::load(store.clone(), &config.data_dir, config.task_budget).await;
    let models = models.map_err(|error| failed("load the model providers", &error))?;
    let outside = OutboundConnector::from_host_config();
    let model_idle = Duration::from_secs(config.model_idle_s);
    let gateway = Gateway::new(models.clone(), outside.clone()).with_idle(model_idle);
    let egress = egress(&config, &store, &previews, outside).await?;
    let threads = ConnectionThreads::start("inside")
        .map_err(|error| failed("start the threads of its listeners inside sandboxes", &error))?;
    let inside = InsideServer::new(previews.clone(), gateway, egress.clone()).served_by(threads);
    let defaults = defaults(&config, default);
    let parts = FleetParts { store: store.clone(), drivers, defaults, timing, inside, models, agents, disk };
    let fleet = Fleet::open(parts).await.map_err(|error| Failure::Failed(error.to_string()))?;

    let closing = CancellationToken::new();
    let links = PreviewLinks::new(store.clone(), PassSigner::new(&files.key, previews.clone()));
    let auth = PreviewAuth::new(links.clone(), &files.admin_token, previews.clone(), fleet.clock());
    let parts = EdgeParts { fleet: fleet.clone(), previews: previews.clone(), auth, tls };
    let edge = Edge::start(parts, closing.clone())
        .map_err(|error| failed("start the threads of previews", &error))?;
    let settings = settings(&config, &files, images, previews, links);
    let api = Api::new(fleet.clone(), settings, closing.clone());
    let tcp = bind("SLIPWAY_API_BIND", config.api_bind).await?;
    let address = local_address(&tcp)?;
    fleet.disk().ensure_free();
    let socket = config.data_dir.join(SOCKET);
    let unix = listen_unix_if_room(&socket)?;
    let mut signals = Signals::new()?;
    let preview_url = format!("{}://{}", scheme_of(&config).word(), local_address(&preview)?);
    print_ready(&format!("ready api=http://{address} preview={preview_url}"));

    let router = api::router(api.clone());
    let tcp = api::serve(Listener::Tcp(tcp), router.clone(), closing.clone());
    let unix = serve_unix(unix, &socket, router, closing.clone());
    let preview = edge::serve(preview, edge.clone());
    let prune = edge.tidy();
    let egress_reports = egress.run_recorder(closing.clone());
    let retention = retention(store.clone(), fleet.clone(), closing.clone());
    let wal = closing.run_until_cancelled(store.maintain_wal());
    let room = closing.run_until_cancelled(fleet.watch_disk());
    let allocator = closing.run_until_cancelled(allocator::trim_periodically());
    let stop = async {
        let name = signals.next().await;
        info!(signal = name, "draining; sandboxes keep running");
        closing.cancel();
    };
    tokio::join!(tcp, unix, preview, prune, retention, wal, room, allocator, egress_reports, stop);
    api.finish().await;
    fleet.close().await;
    // Connections of sandboxes report their bytes when they end, so egress finishes after them.
    egress.finish().await;
    store.close().await;
    info!("stopped");
    Ok(())
}

/// Opens the store. On a full disk a sandbox may take released space first, so it is tried for a while.
async fn open_store(path: &Path, disk: &DiskSpace) -> Result<Store, Failure> {
    let deadline = Instant::now() + Duration::from_millis(limits::STORE_OPEN_FULL_MAX_MS);
    loop {
        match Store::open_on(path, disk.clone()) {
            Err(OpenError::Full) if Instant::now() < deadline => {
                disk.ensure_free();
                tokio::time::sleep(Duration::from_millis(limits::STORE_OPEN_RETRY_MS)).await;
            }
            opened => return opened.map_err(|error| Failure::Failed(error.to_string())),
        }
    }
}

async fn egress(
    config: &Config,
    store: &Store,
    previews: &Previews,
    outside: OutboundConnector,
) -> Result<Egress, Failure> {
    let profiles = Profiles::load(store.clone()).await;
    let parts = EgressParts {
        connector: outside,
        previews: previews.clone(),
        profiles: profiles.map_err(|error| Failure::Failed(error.to_string()))?,
        exceptions: config.egress_private.clone(),
        store: store.clone(),
    };
    Ok(Egress::new(parts))
}

/// Returns the defaults of sandboxes. One sandbox may have all of the host, unless configured.
fn defaults(config: &Config, driver: &str) -> Defaults {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
    let memory_mb = nix::sys::sysinfo::sysinfo().map_or(1024, |info| info.ram_total() >> 20);
    Defaults {
        driver: driver.to_owned(),
        image: config.image.clone(),
        memory_max_mb: config.memory_max_mb.unwrap_or(memory_mb),
        cpus_max: config.cpus_max.unwrap_or(cores),
        pids_max: pids_max(),
        network: Network::Proxy,
    }
}

/// Returns the limit of processes of one sandbox: a quarter of the host's process ids.
fn pids_max() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let all: u64 = text.trim().parse().unwrap_or(limits::PIDS_MAX);
    (all / 4).clamp(limits::PIDS_MIN, limits::PIDS_MAX)
}

fn settings(
    config: &Config,
    files: &IdentityFiles,
    images: ImageBackend,
    previews: Previews,
    links: PreviewLinks,
) -> api::Settings {
    api::Settings {
        admin_hash: api::token_hash(&files.admin_token),
        auth: match config.auth {
            config::Auth::Required => api::Auth::Required,
            config::Auth::Off => api::Auth::Off,
        },
        names: config.api_hosts.clone(),
        previews,
        instance: files.instance.clone(),
        data_dir: config.data_dir.clone(),
        images,
        links,
    }
}

/// Returns previews as browsers see them. A client that can reach loopback only is trusted as the operator.
fn previews(config: &Config, bound: u16) -> Previews {
    let (scheme, port) = config.preview_public.unwrap_or((scheme_of(config), bound));
    let local = config.preview_bind.ip().is_loopback() && config.preview_public.is_none();
    let visibility = if local { Visibility::Public } else { Visibility::Private };
    Previews { domain: config.preview_domain.clone(), scheme, port, visibility }
}

async fn bind(key: &str, at: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(at).await;
    listener.map_err(|error| Failure::Usage(format!("{key}: could not listen on {at}: {error}")))
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(|error| failed("ask for its address", &error))
}

fn tls(config: &Config) -> Result<Option<Tls>, Failure> {
    let load = |(cert, key): &(PathBuf, PathBuf)| Tls::load(cert, key);
    config.preview_tls.as_ref().map(load).transpose().map_err(|error| Failure::Usage(error.to_string()))
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
    router: axum::Router,
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
        api::serve(Listener::Unix(unix), router, closing).await;
    }
}

async fn retention(store: Store, fleet: Fleet, closing: CancellationToken) {
    loop {
        if let Err(error) = store.delete_expired(fleet.clock().now_ms()).await {
            warn!(%error, "failed to delete expired rows");
        }
        tokio::select! {
            // Both futures only wait, so cancelling either is safe.
            () = closing.cancelled() => return,
            () = tokio::time::sleep(RETENTION_INTERVAL) => {}
        }
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
        builder.json().init();
    }
}

fn failed(what: &str, error: &dyn std::error::Error) -> Failure {
    Failure::Failed(format!("could not {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_are_private_wherever_more_than_this_host_can_ask() {
        let table = [
            (&[][..], Visibility::Public),
            (&[("SLIPWAY_PREVIEW_BIND", "[::1]:80")], Visibility::Public),
            (&[("SLIPWAY_PREVIEW_BIND", "0.0.0.0:80")], Visibility::Private),
            (&[("SLIPWAY_PREVIEW_BIND", "192.0.2.1:80")], Visibility::Private),
            // Behind a proxy every client comes from loopback.
            (&[("SLIPWAY_PREVIEW_PUBLIC", "https")], Visibility::Private),
        ];
        for (variables, expected) in table {
            let find = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            let config = Config::parse(None, find).expect("good");
            assert_eq!(previews(&config, 80).visibility, expected, "{variables:?}");
        }
    }
}
