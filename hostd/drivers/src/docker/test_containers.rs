//! Containers that only sleep, to test the engine before it runs a sandbox.

use super::{
    engine::{CreateContainer, Engine, Healthcheck, HostConfig, LogConfig, Resources, RestartPolicy, Ulimit},
    images::{EngineImages, ImageRequest, PreparedImage},
    remove_container::remove_with_retry,
};
use crate::{
    DriverError, ProgressSink,
    local::{files::failed, host_checks::nproc_limit, images::HOST, init::Init},
};
use nix::sys::resource::{Resource, getrlimit};
use std::{collections::BTreeMap, io, sync::Arc};

/// Another label than that of sandboxes, so that neither is taken for the other.
const LABEL: &str = "dev.slipway.trial";
/// Ends the container should hostd be killed before it removes it.
const SLEEP_S: &str = "60";
/// Enough for a runtime that runs threads of its own inside.
const MEMORY_BYTES: u64 = 256 << 20;
const PIDS: u64 = 256;
const NOFILE: u64 = 1024;

/// Settings of a test container.
#[derive(Debug, Clone)]
pub struct TestContainer {
    pub network: String,
    /// `None` is the engine's default.
    pub runtime: Option<String>,
}

impl TestContainer {
    pub fn on_network(network: &str) -> Self {
        Self { network: network.to_owned(), runtime: None }
    }

    pub fn with_runtime(runtime: &str) -> Self {
        Self { runtime: Some(runtime.to_owned()), ..Self::on_network("none") }
    }
}

#[derive(Clone)]
pub struct TestContainers {
    engine: Engine,
    images: EngineImages,
    instance: String,
    /// One test at a time: each removes leftovers of earlier ones.
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl TestContainers {
    pub fn new(engine: Engine, images: EngineImages, instance: &str) -> Self {
        Self { engine, images, instance: instance.to_owned(), lock: Arc::default() }
    }

    /// Starts these containers, passes their PID 1s to `inspect`, which may block, and removes them.
    pub async fn run<T: Send + 'static>(
        &self,
        test_containers: &[TestContainer],
        inspect: impl FnOnce(&[Init]) -> Result<T, DriverError> + Send + 'static,
    ) -> Result<T, DriverError> {
        let _lock = self.lock.lock().await;
        self.remove_leftovers().await?;
        let inspected = match self.start(test_containers).await {
            Ok(inits) => tokio::task::spawn_blocking(move || inspect(&inits))
                .await
                .unwrap_or_else(|error| Err(failed("test the container engine")(io::Error::other(error)))),
            Err(error) => Err(error),
        };
        self.remove_leftovers().await?;
        inspected
    }

    async fn start(&self, test_containers: &[TestContainer]) -> Result<Vec<Init>, DriverError> {
        // No tenant: the image is local, and not pulled.
        let request = ImageRequest { image: HOST, tenant: "", progress: &ProgressSink::default() };
        let prepared = self.images.prepare(&request).await?;
        let podman = self.engine.is_podman().await?;
        let mut inits = vec![];
        for (number, spec) in test_containers.iter().enumerate() {
            let name = format!("{}{number}", self.prefix());
            let container = self.container(&prepared, spec, podman);
            let id = self.engine.create(&name, &container).await?;
            self.engine.start(&id).await?;
            inits.push(self.init(&id).await?);
        }
        Ok(inits)
    }

    async fn init(&self, id: &str) -> Result<Init, DriverError> {
        let inspected = self.engine.inspect(id).await?;
        let pid = inspected.and_then(|inspected| i32::try_from(inspected.state.pid).ok()).unwrap_or_default();
        let found = if pid > 0 { Init::check(pid, |cgroup| cgroup.contains(id)) } else { Ok(None) };
        found.map_err(failed("inspect a container"))?.ok_or_else(|| {
            let message = format!(
                "process {pid}, which the engine started, is not PID 1 of a container here: the engine must run on \
                 this machine and use its kernel"
            );
            DriverError::Failed { message, output: vec![] }
        })
    }

    /// Removes containers that an earlier hostd or test left. A label alone is no proof: images can set it.
    async fn remove_leftovers(&self) -> Result<(), DriverError> {
        let prefix = self.prefix();
        let is_ours = |name: &String| name.trim_start_matches('/').starts_with(&prefix);
        for leftover in self.engine.list(&format!("{LABEL}={}", self.instance)).await? {
            if leftover.names.iter().any(is_ours) {
                remove_with_retry(&self.engine, &leftover.id).await?;
            }
        }
        Ok(())
    }

    fn prefix(&self) -> String {
        format!("slipway-trial-{}-", self.instance)
    }

    fn container(&self, prepared: &PreparedImage, spec: &TestContainer, podman: bool) -> CreateContainer {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let binds = prepared.binds.iter().map(|(from, to)| format!("{}:{}:ro", from.display(), to.display()));
        CreateContainer {
            image: prepared.image.clone(),
            user: "0:0".to_owned(),
            entrypoint: strings(&["/usr/bin/sleep", SLEEP_S]),
            working_dir: "/".to_owned(),
            labels: BTreeMap::from([(LABEL.to_owned(), self.instance.clone())]),
            stop_signal: "SIGKILL".to_owned(),
            healthcheck: Healthcheck { test: strings(&["NONE"]) },
            host_config: HostConfig {
                binds: binds.collect(),
                readonly_rootfs: true,
                cap_drop: strings(&["ALL"]),
                security_opt: strings(&["no-new-privileges"]),
                network_mode: spec.network.clone(),
                runtime: spec.runtime.clone(),
                resources: Resources {
                    memory: MEMORY_BYTES,
                    memory_swap: MEMORY_BYTES,
                    pids_limit: PIDS,
                    ..Resources::default()
                },
                shm_size: MEMORY_BYTES,
                ulimits: ulimits(podman),
                restart_policy: RestartPolicy { name: "no".to_owned() },
                log_config: LogConfig { r#type: "json-file".to_owned(), config: BTreeMap::new() },
                ..HostConfig::default()
            },
            ..CreateContainer::default()
        }
    }
}

/// Resource limits not above our own: the engine may not be allowed to raise them, and Podman's defaults
/// would.
fn ulimits(podman: bool) -> Vec<Ulimit> {
    let own = |resource| getrlimit(resource).map_or(NOFILE, |(_, hard)| hard);
    let limit = |name: &str, max: u64| Ulimit { name: name.to_owned(), soft: max, hard: max };
    let max = own(Resource::RLIMIT_NOFILE).min(NOFILE);
    let processes = nproc_limit().filter(|_| podman).map(|max| limit("nproc", max));
    [limit("nofile", max), limit("core", 0)].into_iter().chain(processes).collect()
}
