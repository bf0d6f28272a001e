//! Launches a sandbox. Every step may have been done before by a hostd that died since: what exists is used,
//! or removed first.
//!
//! ```text
//! lock ─▶ already running? ─▶ image, network, files, badge ─▶ nonce on disk ─▶ create ─▶ start ─▶ PID 1 checked
//! ```

mod start;
mod volume_check;

use super::{
    super::{
        DriverError, Handle, LaunchRequest,
        local::{
            blueprint_checks::check_limits,
            chown_tree,
            files::{self, failed},
            init::Init,
            layout::SandboxDir,
            signed_badge::BadgeRecord,
        },
    },
    classify_state::{ContainerPhase, container_phase},
    container_cache::labels_of,
    container_config::{ContainerConfig, config_hash},
    driver::DockerInner,
    engine::{CreateContainer, EngineError, InspectedContainer, InspectedState},
    engine_checks::IdMap,
    engine_health::FitEngine,
    images::ImageRequest,
    inspect::handle,
    labels,
    limits::LAUNCH_STEPS_MAX,
    run_record::RunRecord,
};
use crate::local::local_driver::LocalDriver;
use hostd_core::Blueprint;
use protocol::api::SandboxId;
use start::{Started, is_missing_network};
use std::{io, sync::Arc};
use tokio::time::Instant;
pub use volume_check::VOLUMES_HIDDEN;

/// The container to create, with what tells it from others.
struct DesiredContainer {
    sandbox: SandboxId,
    name: String,
    container: CreateContainer,
    hash: String,
}

/// The next step of a launch.
#[derive(Debug, PartialEq, Eq)]
enum LaunchStep {
    Create,
    /// Created from another configuration.
    Remove,
    Start,
    /// Wait for the engine to notice a change.
    Wait,
    Adopt,
    /// A container that is not ours has the name.
    RefuseName,
}

/// Which launch a container belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    Ours,
    /// A launch before the current one.
    Earlier,
    Foreign,
}

fn next_step(
    run: &RunRecord,
    current: Option<(&InspectedState, Ownership)>,
    same_config: bool,
) -> LaunchStep {
    let Some((state, ownership)) = current else { return LaunchStep::Create };
    match ownership {
        Ownership::Foreign => return LaunchStep::RefuseName,
        Ownership::Earlier if container_phase(state) == ContainerPhase::Removing => return LaunchStep::Wait,
        Ownership::Earlier => return LaunchStep::Remove,
        Ownership::Ours => {}
    }
    match container_phase(state) {
        ContainerPhase::Removing => LaunchStep::Wait,
        ContainerPhase::Created | ContainerPhase::Exited if !same_config || state.status == "dead" => {
            LaunchStep::Remove
        }
        ContainerPhase::Created | ContainerPhase::Exited => LaunchStep::Start,
        // hostd ended this run, and the engine has not noticed yet.
        ContainerPhase::Running if run.has_cleared(&state.started_at) => LaunchStep::Wait,
        ContainerPhase::Running => LaunchStep::Adopt,
    }
}

impl DockerInner {
    /// Refuses what this driver cannot do, before anything is created.
    pub async fn check_blueprint(
        &self,
        blueprint: &Blueprint,
        fit_engine: &FitEngine,
    ) -> Result<(), DriverError> {
        check_limits(&blueprint.limits)?;
        self.check_disk_limit(&blueprint.limits)?;
        self.images.find(&blueprint.image)?;
        self.networks.check(blueprint.network, fit_engine.info.podman).await
    }

    pub async fn launch(
        self: &Arc<Self>,
        order: &LaunchRequest,
        fit_engine: &FitEngine,
    ) -> Result<Handle, DriverError> {
        self.check_blueprint(&order.blueprint, fit_engine).await?;
        let sandbox = order.badge.sandbox;
        let begun = Instant::now();
        let lock = self.launch_locks.lock(sandbox).await;
        if self.read_badge(&sandbox)?.is_some()
            && let Some(run) = RunRecord::read(&self.dir(&sandbox))?
            && let Some(init) = self.init_of(&self.dir(&sandbox), &run)?
        {
            return Ok(handle(&run, &init));
        }
        let (record, id_map) = (order.clone(), fit_engine.id_map.clone());
        // The lock moves along: the work goes on when the caller is cancelled.
        let files = self.spawn_blocking(move |inner| inner.prepare_files(&record, &id_map).map(|()| lock));
        let (lock, desired) = tokio::try_join!(files, self.desired_container(order, fit_engine))?;
        let prepared = begun.elapsed();
        let inner = Arc::clone(self);
        // Runs to its end when the caller is cancelled: an engine cannot be stopped halfway.
        let task = tokio::spawn(async move {
            let _lock = lock;
            inner.run_steps(desired).await
        });
        let launched = task.await.unwrap_or_else(|error| Err(failed("launch")(io::Error::other(error))));
        let (run, init) = launched?;
        self.check_volume(&sandbox, &init).await?;
        tracing::debug!(%sandbox, pid = init.pid, ?prepared, launched = ?begun.elapsed(), "sandbox launched");
        Ok(handle(&run, &init))
    }

    /// Prepares image and network, and builds the create request.
    async fn desired_container(
        &self,
        order: &LaunchRequest,
        fit_engine: &FitEngine,
    ) -> Result<DesiredContainer, DriverError> {
        let (sandbox, blueprint) = (order.badge.sandbox, &order.blueprint);
        let tenant = order.badge.owner.tenant.as_str();
        let request = ImageRequest { image: &blueprint.image, tenant, progress: &order.progress };
        let prepared = self.images.prepare(&request).await?;
        let network = self.networks.mode(blueprint.network, &sandbox, fit_engine.info.podman).await?;
        let (dir, workspace) = (self.dir(&sandbox), self.layout.workspace(&sandbox));
        let (control, public) = (dir.control(), dir.public());
        let config = ContainerConfig {
            blueprint,
            prepared: &prepared,
            hostname: sandbox.as_str(),
            runtimed: &self.runtimed,
            workspace: &workspace,
            control: &control,
            public: &public,
            network: &network,
            nofile: self.nofile,
            nproc: self.nproc,
            filter: &self.seccomp_profile,
            podman: fit_engine.info.podman,
        };
        let container = config.create_request();
        let hash = config_hash(&container, &prepared.id);
        let hash = hash.map_err(|error| failed("describe the container")(error.into()))?;
        Ok(DesiredContainer { sandbox, name: self.name(&sandbox), container, hash })
    }

    /// Prepares everything on disk that a launch needs. May be repeated.
    pub fn prepare_files(&self, order: &LaunchRequest, id_map: &IdMap) -> Result<(), DriverError> {
        let sandbox = order.badge.sandbox;
        let dir = self.dir(&sandbox);
        let make = || failed("make the directories of the sandbox");
        for (path, mode) in [(dir.path().to_owned(), 0o711), (dir.control(), 0o700), (dir.public(), 0o755)] {
            files::make_dir(&path, mode).map_err(make())?;
        }
        let record = BadgeRecord {
            instance: self.signer.instance.clone(),
            badge: order.badge.clone(),
            blueprint: (*order.blueprint).clone(),
            uid_base: 0,
            pid_namespace: Some(self.pid_namespace),
        };
        if self.read_badge(&sandbox)?.as_ref() != Some(&record) {
            let written = self.signer.write(&dir, &record).and_then(|file| file.sync_all());
            written.map_err(failed("write the badge"))?;
        }
        let unsynced = self.make_workspace(&sandbox, &order.blueprint)?;
        unsynced.sync().map_err(failed("sync the workspace"))?;
        let change = || failed("change the owner of the sandbox's files");
        if !self.workspaces().has_stack(&sandbox) {
            chown_tree::chown_workspace(&self.layout, &sandbox, id_map).map_err(change())?;
        }
        chown_tree::chown_control_files(&self.layout, &sandbox, id_map).map_err(change())
    }

    /// Runs the launch step by step, each decided by the current state of the container.
    async fn run_steps(
        self: &Arc<Self>,
        desired: DesiredContainer,
    ) -> Result<(RunRecord, Init), DriverError> {
        let dir = self.dir(&desired.sandbox);
        let mut run = RunRecord::read(&dir)?;
        // Without a run record no container was ever created.
        let mut found = match run {
            Some(_) => self.cache.refresh(&desired.name).await?,
            None => None,
        };
        let mut started_before: Option<String> = None;
        for _ in 0..LAUNCH_STEPS_MAX {
            let known = run.clone().unwrap_or_default();
            let current =
                found.as_ref().map(|found| (&found.state, self.ownership(&desired.sandbox, &known, found)));
            let same_config = found.as_ref().is_some_and(|found| {
                labels_of(found).get(labels::CONFIG_HASH).is_some_and(|hash| *hash == desired.hash)
            });
            match (next_step(&known, current, same_config), &found) {
                (LaunchStep::Create, _) | (_, None) => {
                    let created = self.create_container(&dir, run, &desired).await?;
                    // Start at once: a container that was just created needs no inspect.
                    if let Some(id) = &created.container {
                        started_before = Some(String::new());
                        // Removed again at once: a new launch starts from the beginning.
                        if let Started::Outdated { why } = self.start(id).await? {
                            return Err(DriverError::Unavailable { message: why });
                        }
                    }
                    run = Some(created);
                }
                (LaunchStep::Remove, Some(found)) => self.remove_by_id(&found.id).await?,
                (LaunchStep::Wait, Some(found)) => self.wait_for_change(&desired.name, found).await?,
                (LaunchStep::RefuseName, Some(found)) => return Err(name_taken(found)),
                (LaunchStep::Adopt, Some(found)) => {
                    let mut run = known;
                    if let Some(init) = self.adopt(&desired.sandbox, &mut run, found).await? {
                        return Ok((run, init));
                    }
                    self.wait_for_change(&desired.name, found).await?;
                }
                (LaunchStep::Start, Some(found)) => {
                    let started_at = &found.state.started_at;
                    let again = started_before.as_ref().is_some_and(|before| before != started_at);
                    if again && container_phase(&found.state) == ContainerPhase::Exited {
                        return Err(self.exited_at_once(&found.id).await);
                    }
                    started_before = Some(started_at.clone());
                    match self.start(&found.id).await {
                        Ok(Started::Tried | Started::Outdated { .. }) => {}
                        Ok(Started::Busy) => self.wait_for_change(&desired.name, found).await?,
                        // An engine that was killed meanwhile may have left the container broken: recreate
                        // it.
                        Err(error @ DriverError::Failed { .. }) => {
                            tracing::warn!(container = found.name, %error, "failed to start the container; creating it again");
                            self.remove_container_and_strays(&found.id).await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            found = self.cache.refresh(&desired.name).await?;
        }
        let message = format!("{} keeps changing: another program manages it", desired.name);
        Err(DriverError::Failed { message, output: vec![] })
    }

    /// Creates the container, with its nonce on disk before the engine gets the request.
    async fn create_container(
        self: &Arc<Self>,
        dir: &SandboxDir,
        old: Option<RunRecord>,
        desired: &DesiredContainer,
    ) -> Result<RunRecord, DriverError> {
        let mut run = RunRecord::for_next_container(old);
        let (record, record_dir) = (run.clone(), dir.clone());
        self.spawn_blocking(move |_| record.write_durably(&record_dir)).await?;
        let mut container = desired.container.clone();
        container.labels = labels::make(&self.signer, &desired.sandbox, &run.nonce);
        container.labels.insert(labels::CONFIG_HASH.to_owned(), desired.hash.clone());
        match self.engine.create(&desired.name, &container).await {
            Ok(id) => run.container = Some(id),
            // From an interrupted launch, or not ours: the next inspect tells.
            Err(EngineError::Conflict(why)) => {
                self.remove_name_holder(&why).await?;
                return Ok(run);
            }
            Err(EngineError::NotFound(message)) if is_missing_network(&message) => {
                return Err(DriverError::Unavailable { message });
            }
            Err(EngineError::NotFound(why)) => {
                return Err(DriverError::ImageMissing { name: container.image, why: Some(why) });
            }
            Err(error) => return Err(error.into()),
        }
        run.write(dir)?;
        Ok(run)
    }

    fn ownership(&self, sandbox: &SandboxId, run: &RunRecord, found: &InspectedContainer) -> Ownership {
        match (self.is_ours(sandbox, run, found), self.was_ours_before(sandbox, run, found)) {
            (true, _) => Ownership::Ours,
            (false, true) => Ownership::Earlier,
            (false, false) => Ownership::Foreign,
        }
    }
}

fn name_taken(found: &InspectedContainer) -> DriverError {
    let message = format!(
        "a container {} exists that does not belong to this sandbox: remove or rename it",
        found.name
    );
    DriverError::NameTaken { message }
}

#[cfg(test)]
mod tests;
