//! Inspects a sandbox: launching, running, dead or absent, and how it died. Asks the kernel first; the engine
//! only about a sandbox whose PID 1 is not found.

use super::{
    super::{
        ContainerState, DriverError, Handle,
        local::{
            files::{self, failed},
            init::Init,
            init_exit::wait_for_exit,
            layout::SandboxDir,
        },
    },
    cgroup_membership::is_in_container,
    classify_state::{ContainerPhase, RunState, classify, container_phase, was_killed},
    container_cache::labels_of,
    driver::DockerInner,
    engine::InspectedContainer,
    labels,
    last_inspect::LastInspect,
    limits::{ENGINE_LAG_MAX_MS, ENGINE_POLL_MS, REMOVAL_MAX_MS, REMOVAL_POLL_MS},
    run_record::RunRecord,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::SandboxId;
use std::time::Duration;
use tokio::time::{Instant, timeout};

impl DockerInner {
    pub async fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        // Taken before anything is inspected, so that `changed` notices every later change.
        let version = self.cache.version(&self.name(sandbox));
        self.last_inspects.change(sandbox, |last| last.version = version);
        if self.launch_locks.is_locked(sandbox) {
            return Ok(ContainerState::Launching);
        }
        self.inspect_unlocked(sandbox).await
    }

    /// Like `inspect`, for a caller that holds the launch lock.
    pub async fn inspect_unlocked(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        let dir = self.dir(sandbox);
        if !dir.path().exists() {
            self.last_inspects.forget(sandbox);
            return Ok(ContainerState::Absent);
        }
        let record = self.read_badge(sandbox)?;
        let Some(run) = RunRecord::read(&dir)? else { return Ok(ContainerState::Absent) };
        if let Some(init) = self.init_of(&dir, &run)? {
            return match record {
                Some(_) => self.running(sandbox, &run, &init),
                None => {
                    let message = format!("sandbox {sandbox} runs, but has no badge");
                    Err(DriverError::Damaged { message })
                }
            };
        }
        self.count_after_exit(sandbox);
        let away = self.cache.check_connected();
        self.last_inspects.change(sandbox, |last| {
            last.engine_was_away |= run.has_uncleared_start() && away.is_err();
        });
        // The last run was seen to its end, and nothing starts without the engine. After a reconnect every
        // sandbox is inspected again.
        if away.is_err() && !run.has_uncleared_start() {
            return Ok(ContainerState::Absent);
        }
        away?;
        let known = self.cache.get(&self.name(sandbox)).filter(|found| self.is_ours(sandbox, &run, found));
        match classify(&run, known.as_ref().map(|found| &found.state)) {
            RunState::Absent => Ok(ContainerState::Absent),
            // The cache may be stale: ask the engine.
            RunState::Alive | RunState::Dead | RunState::Removed => {
                self.inspect_engine(sandbox, &dir, run).await
            }
        }
    }

    /// Inspects through the engine, and again while it reports a running process that has exited.
    async fn inspect_engine(
        &self,
        sandbox: &SandboxId,
        dir: &SandboxDir,
        mut run: RunRecord,
    ) -> Result<ContainerState, DriverError> {
        let name = self.name(sandbox);
        let deadline = Instant::now() + Duration::from_millis(ENGINE_LAG_MAX_MS);
        loop {
            let found = self.cache.refresh(&name).await?.filter(|found| self.is_ours(sandbox, &run, found));
            let state = found.as_ref().map(|found| &found.state);
            match (classify(&run, state), &found) {
                (RunState::Absent, _) => return Ok(ContainerState::Absent),
                (RunState::Alive, Some(found)) if self.runs_in_other_namespace(sandbox, found)? => {
                    return Ok(ContainerState::OtherPidNamespace);
                }
                // Another run, while the end of the observed one is not handled yet.
                (RunState::Alive, Some(other))
                    if run.has_uncleared_start() && !run.is_observed_start(&other.state) =>
                {
                    return self.death(sandbox, dir, run, found).await.map(ContainerState::Dead);
                }
                (RunState::Alive, Some(found)) => {
                    if let Some(init) = self.adopt(sandbox, &mut run, found).await? {
                        return self.running(sandbox, &run, &init);
                    }
                }
                (RunState::Alive | RunState::Dead | RunState::Removed, _) => {
                    let found = self.wait_for_removal(found).await?;
                    return self.death(sandbox, dir, run, found).await.map(ContainerState::Dead);
                }
            }
            if Instant::now() >= deadline {
                let message =
                    format!("the container engine reports {name} as running, but its PID 1 has exited");
                return Err(DriverError::Unavailable { message });
            }
            let version = self.cache.version(&name);
            let _ = timeout(Duration::from_millis(ENGINE_POLL_MS), self.cache.changed_since(&name, &version))
                .await;
        }
    }

    /// Waits for the removal that follows when a container is removed while it runs: the engine first kills
    /// it, Podman first asks it to stop.
    async fn wait_for_removal(
        &self,
        found: Option<InspectedContainer>,
    ) -> Result<Option<InspectedContainer>, DriverError> {
        let podman = self.health.last_fit().is_some_and(|fit_engine| fit_engine.info.podman);
        let may_follow = |found: &&InspectedContainer| podman || was_killed(&found.state);
        let Some(killed) = found.as_ref().filter(may_follow) else { return Ok(found) };
        let deadline = Instant::now() + Duration::from_millis(REMOVAL_MAX_MS);
        while Instant::now() < deadline {
            let version = self.cache.version(&killed.name);
            let _ = timeout(
                Duration::from_millis(REMOVAL_POLL_MS),
                self.cache.changed_since(&killed.name, &version),
            )
            .await;
            let again = self.cache.refresh(&killed.id).await?;
            if again.is_none_or(|again| container_phase(&again.state) == ContainerPhase::Removing) {
                return Ok(None);
            }
        }
        Ok(found)
    }

    /// Records the run that the engine reports and returns its PID 1. `None` where the process is not a PID 1
    /// of this container.
    pub async fn adopt(
        &self,
        sandbox: &SandboxId,
        run: &mut RunRecord,
        found: &InspectedContainer,
    ) -> Result<Option<Init>, DriverError> {
        let dir = self.dir(sandbox);
        let Some(init) = init_in(found)? else { return Ok(None) };
        if !self.verify(&dir, &init, &found.id).await? {
            return Ok(None);
        }
        if !run.is_observed_start(&found.state) {
            self.last_inspects.change(sandbox, LastInspect::reset_for_new_run);
        }
        if let Some(nonce) = labels_of(found).get(labels::LAUNCH) {
            run.nonce.clone_from(nonce);
        }
        run.container = Some(found.id.clone());
        run.observed_start = Some(found.state.started_at.clone());
        run.boot = Some(self.boot.clone());
        run.write(&dir)?;
        let written = files::replace(&dir.pid(), init.pid.to_string().as_bytes(), 0o600);
        written.map_err(failed("write the pid file"))?;
        Ok(Some(init))
    }

    /// Whether a container that the engine reports as running is in another PID namespace than hostd.
    pub fn runs_in_other_namespace(
        &self,
        sandbox: &SandboxId,
        found: &InspectedContainer,
    ) -> Result<bool, DriverError> {
        Ok(self.launched_in_other_namespace(sandbox)? && init_in(found)?.is_none())
    }

    /// Whether a container belongs to the current launch of this sandbox.
    pub fn is_ours(&self, sandbox: &SandboxId, run: &RunRecord, found: &InspectedContainer) -> bool {
        self.nonce_of(sandbox, found).is_some_and(|nonce| run.has_nonce(&nonce))
    }

    /// Whether a container belongs to an earlier launch of this sandbox: an engine restored from a backup has
    /// one.
    pub fn was_ours_before(&self, sandbox: &SandboxId, run: &RunRecord, found: &InspectedContainer) -> bool {
        self.nonce_of(sandbox, found).is_some_and(|nonce| run.earlier_nonces.contains(&nonce))
    }

    fn nonce_of(&self, sandbox: &SandboxId, found: &InspectedContainer) -> Option<String> {
        let claim = labels::read(&self.signer, &found.name, labels_of(found)).ok()?;
        (claim.sandbox == *sandbox).then_some(claim.nonce)
    }

    fn running(
        &self,
        sandbox: &SandboxId,
        run: &RunRecord,
        init: &Init,
    ) -> Result<ContainerState, DriverError> {
        let group = self.cgroup(init, run.container.as_deref().unwrap_or_default())?;
        self.last_inspects.change(sandbox, |last| {
            last.pid = Some(init.pid);
            last.group = group.clone().or(last.group.take());
            last.read_counters();
            last.oom_kills_before = last.counters.as_ref().map_or(0, |counters| counters.oom_kills);
            last.counted_after_exit = false;
            last.engine_was_away = false;
        });
        Ok(ContainerState::Running {
            frozen: group.is_some_and(|group| group.is_frozen()),
            handle: handle(run, init),
        })
    }

    pub async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match self.find(sandbox)? {
            Some(init) => wait_for_exit(init).await,
            None => Ok(()),
        }
    }

    pub async fn changed(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (name, last) = (self.name(sandbox), self.last_inspects.get(sandbox));
        // Without an earlier inspect, compare with the state of now.
        let last = last
            .unwrap_or_else(|| LastInspect { version: self.cache.version(&name), ..LastInspect::default() });
        let ended = async {
            if last.pid.is_none() {
                return std::future::pending().await;
            }
            self.died(sandbox).await?;
            self.count_after_exit(sandbox);
            Ok(())
        };
        // Cancelling either arm loses nothing.
        tokio::select! {
            ended = ended => ended,
            () = self.cache.changed_since(&name, &last.version) => Ok(()),
        }
    }
}

pub fn handle(run: &RunRecord, init: &Init) -> Handle {
    let (pid, start_time) = (init.pid, init.start_time);
    Handle(serde_json::json!({ "pid": pid, "start_time": start_time, "container": run.container }))
}

/// PID 1 of a container, by the pid that the engine reports.
fn init_in(found: &InspectedContainer) -> Result<Option<Init>, DriverError> {
    match i32::try_from(found.state.pid).ok().filter(|pid| *pid > 1) {
        Some(pid) => {
            Init::check(pid, |cgroup| is_in_container(cgroup, &found.id)).map_err(failed("inspect PID 1"))
        }
        None => Ok(None),
    }
}
