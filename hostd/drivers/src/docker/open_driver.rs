//! Opens the driver. An unreachable engine is no error: the driver connects when it comes up.

use super::{
    super::{
        DriverError,
        local::{
            cgroup::Hierarchies,
            files::{self, failed},
            host_checks::{
                check_host_dirs, check_instance, check_not_shared, host_warnings, make_data_dir,
                nofile_limit, nproc_limit, unavailable,
            },
            images::{self, HostRootfs},
            layout::Layout,
            pid_namespace,
            quota::{Quota, QuotaSettings},
            sandbox_dialer::SandboxDialer,
            seccomp,
            signed_badge::InstanceSigner,
            snapshots::{SnapshotMethodSetting, Snapshots},
        },
    },
    container_cache::ContainerCache,
    container_config::SeccompProfile,
    destroyed_launches::DestroyedLaunches,
    driver::{Docker, DockerInner},
    engine::Engine,
    engine_connection::run,
    engine_health::EngineHealthWatch,
    images::EngineImages,
    labels,
    last_inspect::LastInspects,
    limits::OPEN_WAIT_MAX_MS,
    network::Networks,
    runtimes::Runtimes,
    test_containers::TestContainers,
};
use crate::local::resizes::Resizes;
use hostd_images::RegistryAllowlist;
use hostd_net::keyed_locks::KeyedLocks;
use sha2::{Digest, Sha256};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub struct DockerConfig {
    pub data_dir: PathBuf,
    /// The engine's Unix socket.
    pub socket: PathBuf,
    /// Path of the static runtimed binary on this host.
    pub runtimed: PathBuf,
    /// Tells apart several hostds on one engine.
    pub instance: String,
    /// Authenticates badges and labels.
    pub key: [u8; 32],
    /// Directories of /opt and /usr/local that the image `host` contains besides /usr.
    pub host_dirs: Vec<PathBuf>,
    /// Directory of coding agents, mounted read-only into every sandbox while it exists.
    pub agents: Option<PathBuf>,
    /// Registries in private networks that images may be pulled from.
    pub registries: Vec<String>,
    pub quota: QuotaSettings,
    /// How snapshots are taken.
    pub snapshots: SnapshotMethodSetting,
    /// Directory of the templates of workspaces; `templates` in the data directory unless given.
    pub templates: Option<PathBuf>,
}

/// Why project quotas are not used: without a user namespace the owner of a file may change its project.
const NO_PROJECT: &str = "containers of an engine could leave their project";

impl Docker {
    /// Opens the driver and waits a limited time for the first probe of the engine.
    pub async fn open(config: DockerConfig) -> Result<Self, DriverError> {
        let inner = Arc::new(DockerInner::open(config)?);
        let stop = CancellationToken::new();
        let (record, stopped) = (Arc::clone(&inner), stop.clone());
        // Cancelled with the driver: no running sandbox needs this task.
        tokio::spawn(async move { stopped.run_until_cancelled(Box::pin(run(record))).await });
        let _ = timeout(Duration::from_millis(OPEN_WAIT_MAX_MS), inner.health.wait_until_tested()).await;
        Ok(Self::new(inner, stop.drop_guard()))
    }
}

impl DockerInner {
    fn open(config: DockerConfig) -> Result<Self, DriverError> {
        check_instance(&config.instance)?;
        let pid_namespace = pid_namespace::own()?;
        let data = make_data_dir(&config.data_dir)?;
        let host = HostRootfs { root: "/".into(), allow: check_host_dirs(&config.host_dirs)? };
        let bound: Vec<PathBuf> = host.bound().into_iter().chain(config.agents.clone()).collect();
        check_not_shared(&data, &bound)?;
        let runtimed = std::fs::canonicalize(&config.runtimed)
            .map_err(|error| unavailable(&format!("{}: {error}", config.runtimed.display())))?;
        for path in [&data, &runtimed].into_iter().chain(&bound) {
            check_bind_path(path)?;
        }
        let layout = Layout::new(data, "docker");
        for path in [layout.sandboxes(), layout.workspaces(), layout.trash()] {
            files::make_dir(&path, 0o700).map_err(failed("make the data directory"))?;
        }
        let templates = layout.templates(config.templates.as_deref());
        let quota = Quota::open(&layout, &config.quota, Some(NO_PROJECT));
        let destroyed = DestroyedLaunches::open(layout.data().join("docker-erased"));
        let seccomp_profile = write_seccomp_profile(&layout)?;
        let hierarchies =
            Hierarchies::discover(&config.instance).map_err(failed("find the control groups"))?;
        let (engine, nofile) = (Engine::at(&config.socket), nofile_limit()?);
        let filter = labels::filter(&config.instance);
        let store = images::ImageStore::open(&layout, &host, config.agents)?;
        let images = EngineImages::new(engine.clone(), store, RegistryAllowlist::new(config.registries));
        let test_containers = TestContainers::new(engine.clone(), images.clone(), &config.instance);
        let snapshots = Snapshots::open(&layout, config.snapshots, false)?;
        let storage_warnings = [quota.warnings(), snapshots.warnings()].concat();
        Ok(Self {
            networks: Networks::new(engine.clone(), test_containers.clone(), &config.instance),
            test_containers,
            runtimes: Runtimes::default(),
            images,
            layout,
            signer: InstanceSigner { instance: config.instance, key: config.key },
            cache: ContainerCache::new(engine.clone(), filter.clone()),
            filter,
            socket: config.socket,
            engine,
            health: EngineHealthWatch::new(),
            hierarchies,
            runtimed,
            seccomp_profile,
            nofile,
            nproc: nproc_limit(),
            dialer: SandboxDialer::start().map_err(failed("start the dialer"))?,
            quota,
            snapshots,
            templates,
            volumes_hidden: AtomicBool::new(false),
            launch_locks: KeyedLocks::default(),
            resizes: Resizes::default(),
            last_inspects: LastInspects::default(),
            destroyed,
            pid_namespace,
            boot: boot_id(),
            warnings: host_warnings(nofile).into_iter().chain(storage_warnings).collect(),
        })
    }
}

/// Binds are sent as `from:to:mode`: a path with a colon cannot be bound.
fn check_bind_path(path: &Path) -> Result<(), DriverError> {
    match path.to_str() {
        Some(text) if !text.contains(':') => Ok(()),
        Some(_) | None => Err(unavailable(&format!(
            "{}: a container engine cannot be told of a path like this",
            path.display()
        ))),
    }
}

/// Writes the seccomp profile, the same as on every driver.
fn write_seccomp_profile(layout: &Layout) -> Result<SeccompProfile, DriverError> {
    let json = seccomp::engine_profile().map_err(|error| unavailable(&format!("could not {error}")))?;
    let json = serde_json::to_string(&json).map_err(|error| unavailable(&error.to_string()))?;
    let hash: String = Sha256::digest(&json).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Named by its content: existing containers keep the profile that they were created with.
    let path = layout.data().join(format!("seccomp-{hash}.json"));
    // An intact file is left alone: on a full disk it could not be written again.
    let up_to_date = files::read(&path, json.len() as u64).is_ok_and(|bytes| bytes == json.as_bytes());
    if !up_to_date {
        files::replace(&path, json.as_bytes(), 0o644).map_err(failed("write the seccomp filter"))?;
    }
    Ok(SeccompProfile { json, path })
}

fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
