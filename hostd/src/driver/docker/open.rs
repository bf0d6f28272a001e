//! Opens the driver. An engine that is away is no reason not to: it is waited for from then on.

use super::{
    super::{
        DriverError,
        local::{
            badge::Sealer,
            cgroup::Hierarchies,
            dial::Reach,
            files::{self, failed},
            ground::{
                check_instance, checked_allow, make_data_dir, nofile, nproc, refuse_bound, unavailable,
                warnings,
            },
            images::{self, HostRoot},
            layout::Layout,
            pid_namespace, seccomp,
        },
    },
    body::Filter,
    driver::{Docker, Inner},
    engine::Engine,
    erased::Erased,
    images::{Images, Registries},
    keeper::keep,
    labels,
    limits::OPEN_WAIT_MAX_MS,
    mirror::Mirror,
    network::Networks,
    notes::Notes,
    runtimes::Runtimes,
    standing::Opinion,
    trial::Trials,
    turns::Turns,
};
use sha2::{Digest, Sha256};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub struct DockerConfig {
    pub data_dir: PathBuf,
    /// Of the engine.
    pub socket: PathBuf,
    /// runtimed, static, on this host.
    pub runtimed: PathBuf,
    /// Tells apart the hostds of one engine.
    pub instance: String,
    /// Authenticates badges and labels.
    pub key: [u8; 32],
    /// Directories of /opt and /usr/local that the image `host` has beside /usr.
    pub host_dirs: Vec<PathBuf>,
    /// Agents that every sandbox sees, read-only, while they are there.
    pub agents: Option<PathBuf>,
    /// From which images may be fetched though they are in a network of ours.
    pub registries: Vec<String>,
}

impl Docker {
    /// Returns when something is known about the engine, or after a while.
    pub async fn open(config: DockerConfig) -> Result<Self, DriverError> {
        let inner = Arc::new(Inner::open(config)?);
        let stop = CancellationToken::new();
        let (kept, stopped) = (Arc::clone(&inner), stop.clone());
        // Ends with the driver, at once: nothing that runs needs it.
        tokio::spawn(async move { stopped.run_until_cancelled(Box::pin(keep(kept))).await });
        let _ = timeout(Duration::from_millis(OPEN_WAIT_MAX_MS), inner.standing.known()).await;
        Ok(Self::new(inner, stop.drop_guard()))
    }
}

impl Inner {
    fn open(config: DockerConfig) -> Result<Self, DriverError> {
        check_instance(&config.instance)?;
        let pid_namespace = pid_namespace::own()?;
        let data = make_data_dir(&config.data_dir)?;
        let host = HostRoot { root: "/".into(), allow: checked_allow(&config.host_dirs)? };
        let bound: Vec<PathBuf> = host.bound().into_iter().chain(config.agents.clone()).collect();
        refuse_bound(&data, &bound)?;
        let runtimed = std::fs::canonicalize(&config.runtimed)
            .map_err(|error| unavailable(&format!("{}: {error}", config.runtimed.display())))?;
        for path in [&data, &runtimed].into_iter().chain(&bound) {
            check_plain(path)?;
        }
        let layout = Layout::new(data, "docker");
        for path in [layout.sandboxes(), layout.workspaces(), layout.trash()] {
            files::make_dir(&path, 0o700).map_err(failed("make the data directory"))?;
        }
        let erased = Erased::open(layout.data().join("docker-erased"));
        let filter_list = seccomp_filter(&layout)?;
        let hierarchies =
            Hierarchies::discover(&config.instance).map_err(failed("find the control groups"))?;
        let (engine, nofile) = (Engine::at(&config.socket), nofile()?);
        let filter = labels::filter(&config.instance);
        let here = images::Images::open(&layout, &host, config.agents)?;
        let images = Images::new(engine.clone(), here, Registries::new(config.registries));
        let trials = Trials::new(engine.clone(), images.clone(), &config.instance);
        Ok(Self {
            networks: Networks::new(engine.clone(), trials.clone(), &config.instance),
            trials,
            runtimes: Runtimes::default(),
            images,
            layout,
            sealer: Sealer { instance: config.instance, key: config.key },
            mirror: Mirror::new(engine.clone(), filter.clone()),
            filter,
            socket: config.socket,
            engine,
            standing: Opinion::new(),
            hierarchies,
            runtimed,
            filter_list,
            nofile,
            nproc: nproc(),
            reach: Reach::start().map_err(failed("start the dialer"))?,
            turns: Turns::default(),
            notes: Notes::default(),
            erased,
            pid_namespace,
            boot: boot_id(),
            warnings: warnings(nofile),
        })
    }
}

/// The engine is told of mounts as `from:to:mode`.
fn check_plain(path: &Path) -> Result<(), DriverError> {
    match path.to_str() {
        Some(text) if !text.contains(':') => Ok(()),
        Some(_) | None => Err(unavailable(&format!(
            "{}: a container engine cannot be told of a path like this",
            path.display()
        ))),
    }
}

/// The same as on every driver.
fn seccomp_filter(layout: &Layout) -> Result<Filter, DriverError> {
    let list = seccomp::list_for_engines().map_err(|error| unavailable(&format!("could not {error}")))?;
    let list = serde_json::to_string(&list).map_err(|error| unavailable(&error.to_string()))?;
    let hash: String = Sha256::digest(&list).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Named by what is in it: a container that was made before keeps what it was made with.
    let path = layout.data().join(format!("seccomp-{hash}.json"));
    // One that is there whole is left alone: a full disk has no room for another.
    let there = files::read(&path, list.len() as u64).is_ok_and(|bytes| bytes == list.as_bytes());
    if !there {
        files::replace(&path, list.as_bytes(), 0o644).map_err(failed("write the seccomp filter"))?;
    }
    Ok(Filter { list, path })
}

fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
