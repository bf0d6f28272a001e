//! The driver as others see it: every verb, and where it is done.

use super::{
    super::{
        ContainerState, Driver, DriverError, FoundSandbox, Handle, LaunchRequest, SandboxLabel, Stream,
        Target, Transport,
    },
    badge::{BadBadge, Kept, Sealer},
    cgroup::{Group, Hierarchies},
    dial::{Live, Reach},
    files::failed,
    images::Images,
    init::Init,
    layout::{Layout, SandboxDir},
    measure,
    ranges::Ranges,
    recipe::Recipe,
    sealed::Sealed,
};
use crate::core::{Blueprint, Members, PidNamespace, lives_elsewhere};
use async_trait::async_trait;
use protocol::api::{Capabilities, SandboxId, StatsView};
use std::{collections::HashMap, io, net::SocketAddr, path::PathBuf, sync::Arc, sync::Mutex};
use tokio::net::TcpListener;

/// The embedded driver. A handle: clones share everything.
#[derive(Clone)]
pub struct Oci {
    pub(super) inner: Arc<Inner>,
}

pub struct Inner {
    pub layout: Layout,
    pub sealer: Sealer,
    pub recipe: Recipe,
    /// What is run in place of the recipe's program.
    pub sealed: Option<Sealed>,
    pub hierarchies: Hierarchies,
    /// Where hostd lives.
    pub pid_namespace: PidNamespace,
    pub images: Images,
    pub ranges: Ranges,
    pub runtimed: PathBuf,
    pub launcher: PathBuf,
    /// The seccomp filter, compiled.
    pub filter: String,
    pub nofile: u64,
    pub reach: Reach,
    /// How often the kernel had killed for memory when PID 1 was last seen alive: those were others.
    pub oom_seen: Mutex<HashMap<SandboxId, u64>>,
    /// How PID 1 ended, as `wait` gives it.
    pub ended: Mutex<HashMap<SandboxId, i32>>,
    pub description: String,
    pub warnings: Vec<String>,
}

impl Inner {
    pub fn dir(&self, sandbox: &SandboxId) -> SandboxDir {
        self.layout.sandbox(sandbox)
    }

    pub fn group(&self, sandbox: &SandboxId) -> Group {
        self.hierarchies.of(sandbox)
    }

    fn live(&self, sandbox: &SandboxId) -> io::Result<Arc<Live>> {
        let (dir, group) = (self.dir(sandbox), self.group(sandbox));
        self.reach.live(sandbox, || match Init::find(&dir, |cgroup| group.has(cgroup))? {
            Some(init) => Ok(Some(init)),
            None => self.refuse_elsewhere(sandbox, false).map(|()| None).map_err(io::Error::other),
        })
    }

    /// Whether a sandbox whose PID 1 was not found lives in another PID namespace.
    pub fn lives_elsewhere(&self, sandbox: &SandboxId, kept: Option<&Kept>, launching: bool) -> bool {
        let launched_in = kept.and_then(|kept| kept.pid_namespace);
        // The usual case, without a look at the groups.
        if launched_in == Some(self.pid_namespace) {
            return false;
        }
        let members = if launching { Members::Launching } else { self.group(sandbox).members() };
        lives_elsewhere(launched_in, self.pid_namespace, members)
    }

    /// Refuses to touch a sandbox whose PID 1 was not found and that lives in another PID namespace.
    pub fn refuse_elsewhere(&self, sandbox: &SandboxId, launching: bool) -> Result<(), DriverError> {
        // A badge that cannot be read does not say; what the kernel lists does.
        let kept = self.sealer.read(&self.dir(sandbox), sandbox).ok();
        if self.lives_elsewhere(sandbox, kept.as_ref(), launching) {
            return Err(DriverError::OtherPidNamespace { sandbox: *sandbox });
        }
        Ok(())
    }

    /// What is kept about a sandbox; nothing where it was never made.
    pub fn kept(&self, sandbox: &SandboxId) -> Result<Option<Kept>, DriverError> {
        match self.sealer.read(&self.dir(sandbox), sandbox) {
            Ok(kept) => Ok(Some(kept)),
            Err(BadBadge::Missing) => Ok(None),
            Err(bad) => {
                Err(DriverError::Damaged { message: format!("sandbox {sandbox} is not touched: {bad}") })
            }
        }
    }

    /// Runs what takes time elsewhere. Goes on to its end when the caller goes away.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Inner) -> Result<T, DriverError> + Send + 'static,
    ) -> Result<T, DriverError> {
        let inner = Arc::clone(self);
        let ended = tokio::task::spawn_blocking(move || work(&inner)).await;
        ended.unwrap_or_else(|error| Err(failed("do the work")(io::Error::other(error))))
    }
}

impl Oci {
    /// Root file systems: to import, list and remove them.
    pub fn images(&self) -> &Images {
        &self.inner.images
    }
}

#[async_trait]
impl Transport for Oci {
    async fn dial(&self, sandbox: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>> {
        let inner = &self.inner;
        inner.reach.dial(&inner.live(sandbox)?, &inner.dir(sandbox).control(), target).await
    }

    async fn listen(&self, sandbox: &SandboxId, at: SocketAddr) -> io::Result<TcpListener> {
        self.inner.reach.listen(&self.inner.live(sandbox)?, at).await
    }
}

#[async_trait]
impl Driver for Oci {
    fn name(&self) -> &'static str {
        "oci"
    }

    fn describe(&self) -> String {
        self.inner.description.clone()
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Capabilities {
            networks: words(&["none", "proxy"]),
            limits: words(&["memory_mb", "cpus", "pids"]),
            pause: true,
            runtimes: vec![self.inner.recipe.name()],
            images: words(&["host", "imported"]),
            isolation: words(&["a user namespace of its own", "seccomp", "read-only root"]),
        }
    }

    async fn check(&self, blueprint: &Blueprint) -> Result<(), DriverError> {
        self.inner.check(blueprint)
    }

    async fn launch(&self, order: &LaunchRequest) -> Result<Handle, DriverError> {
        self.inner.launch(order).await
    }

    async fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        self.inner.inspect(sandbox)
    }

    async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.died(sandbox).await
    }

    async fn changed(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.changed(sandbox).await
    }

    async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.freeze(sandbox).await
    }

    async fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.thaw(sandbox)
    }

    async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError> {
        self.inner.terminate(sandbox, grace_ms).await
    }

    async fn remove_container(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.remove_container(sandbox).await
    }

    async fn destroy(&self, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        self.inner.destroy(sandbox, keep_workspace).await
    }

    async fn reset_workspace(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.inner.reset_workspace(sandbox).await
    }

    fn logs(&self, sandbox: &SandboxId) -> Option<PathBuf> {
        Some(self.inner.dir(sandbox).control())
    }

    async fn workspace_bytes(&self, sandbox: &SandboxId) -> Result<Option<u64>, DriverError> {
        let path = self.inner.layout.workspace(sandbox);
        self.inner.blocking(move |_| measure::bytes(&path).map_err(failed("measure the workspace"))).await
    }

    async fn stats(&self, sandbox: &SandboxId) -> Result<StatsView, DriverError> {
        self.inner.group(sandbox).stats().map_err(failed(format!("read the counters of {sandbox}")))
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        self.inner.blocking(|inner| inner.list()).await
    }
}

impl Inner {
    /// Every directory of ours, by what its badge says.
    pub fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        let mut found = vec![];
        for name in self.names()? {
            let Ok(sandbox) = name.parse::<SandboxId>() else {
                found.push(FoundSandbox::Suspect { name, why: "its name is no id".to_owned() });
                continue;
            };
            found.push(match self.sealer.read(&self.dir(&sandbox), &sandbox) {
                Ok(Kept { badge, blueprint, .. }) => ours(badge, blueprint),
                Err(bad) => FoundSandbox::Suspect { name, why: bad.to_string() },
            });
        }
        Ok(found)
    }

    /// Names in `<data>/oci`, except what the runtime keeps there.
    pub fn names(&self) -> Result<Vec<String>, DriverError> {
        let list = || failed("list the sandboxes");
        let mut names = vec![];
        for entry in std::fs::read_dir(self.layout.sandboxes()).map_err(list())? {
            let name = entry.map_err(list())?.file_name().to_string_lossy().into_owned();
            if name != "run" && name != super::trial::PROBE_ID {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

fn ours(badge: SandboxLabel, blueprint: Blueprint) -> FoundSandbox {
    FoundSandbox::Ours { label: badge, blueprint: Box::new(blueprint) }
}
