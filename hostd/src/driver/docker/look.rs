//! Looks at a sandbox: being launched, running, dead or absent, and how it died. The kernel is asked first;
//! the engine only about what does not run.

use super::{
    super::{
        ContainerState, DriverError, Handle,
        local::{
            ending::wait_for_end,
            files::{self, failed},
            init::Init,
            layout::SandboxDir,
        },
    },
    belongs::is_in,
    driver::Inner,
    engine::Inspected,
    labels,
    limits::{NOTICE_MAX_MS, NOTICE_POLL_MS, REMOVAL_MAX_MS, REMOVAL_POLL_MS},
    meaning::{Meaning, Phase, meaning, phase, was_killed},
    mirror::labels_of,
    notes::Note,
    run::Run,
};
use protocol::api::SandboxId;
use std::time::Duration;
use tokio::time::{Instant, timeout};

impl Inner {
    pub async fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        // Before anything is looked at: what changes from here on is seen by whoever waits.
        let mark = self.mirror.mark(&self.name(sandbox));
        self.notes.change(sandbox, |note| note.mark = mark);
        if self.turns.is_taken(sandbox) {
            return Ok(ContainerState::Launching);
        }
        self.see(sandbox).await
    }

    /// The same, for whoever is at work on it.
    pub async fn see(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        let dir = self.dir(sandbox);
        if !dir.path().exists() {
            self.notes.forget(sandbox);
            return Ok(ContainerState::Absent);
        }
        let kept = self.kept(sandbox)?;
        let Some(run) = Run::read(&dir)? else { return Ok(ContainerState::Absent) };
        if let Some(init) = self.init_of(&dir, &run)? {
            return match kept {
                Some(_) => self.running(sandbox, &run, &init),
                None => {
                    let message = format!("sandbox {sandbox} runs, but has no badge");
                    Err(DriverError::Damaged { message })
                }
            };
        }
        self.count_last(sandbox);
        let away = self.mirror.check();
        self.notes.change(sandbox, |note| {
            note.away |= run.is_open() && away.is_err();
        });
        // What ran was seen to its end, and without the engine nothing is started. When it is back, all are
        // looked at again.
        if away.is_err() && !run.is_open() {
            return Ok(ContainerState::Absent);
        }
        away?;
        let known = self.mirror.get(&self.name(sandbox)).filter(|found| self.is_ours(sandbox, &run, found));
        match meaning(&run, known.as_ref().map(|found| &found.state)) {
            Meaning::Absent => Ok(ContainerState::Absent),
            // What is kept may be a moment old.
            Meaning::Alive | Meaning::Dead | Meaning::Removed => self.ask(sandbox, &dir, run).await,
        }
    }

    /// Asks the engine, and again while it says that a process runs which has ended.
    async fn ask(
        &self,
        sandbox: &SandboxId,
        dir: &SandboxDir,
        mut run: Run,
    ) -> Result<ContainerState, DriverError> {
        let name = self.name(sandbox);
        let deadline = Instant::now() + Duration::from_millis(NOTICE_MAX_MS);
        loop {
            let found = self.mirror.ask(&name).await?.filter(|found| self.is_ours(sandbox, &run, found));
            let state = found.as_ref().map(|found| &found.state);
            match (meaning(&run, state), &found) {
                (Meaning::Absent, _) => return Ok(ContainerState::Absent),
                (Meaning::Alive, Some(found)) if self.is_elsewhere(sandbox, found)? => {
                    return Ok(ContainerState::OtherPidNamespace);
                }
                // Another run of it, and nobody dealt with the end of the one that was seen.
                (Meaning::Alive, Some(other)) if run.is_open() && !run.is_seen(&other.state) => {
                    return self.death(sandbox, dir, run, found).await.map(ContainerState::Dead);
                }
                (Meaning::Alive, Some(found)) => {
                    if let Some(init) = self.adopt(sandbox, &mut run, found).await? {
                        return self.running(sandbox, &run, &init);
                    }
                }
                (Meaning::Alive | Meaning::Dead | Meaning::Removed, _) => {
                    let found = self.unless_removed(found).await?;
                    return self.death(sandbox, dir, run, found).await.map(ContainerState::Dead);
                }
            }
            if Instant::now() >= deadline {
                let message = format!("the container engine says that {name} runs, but its PID 1 does not");
                return Err(DriverError::Unavailable { message });
            }
            let mark = self.mirror.mark(&name);
            let _ = timeout(Duration::from_millis(NOTICE_POLL_MS), self.mirror.moved(&name, &mark)).await;
        }
    }

    /// A container that is removed while it runs is killed first, and by Podman asked to end: what follows
    /// is waited for.
    async fn unless_removed(&self, found: Option<Inspected>) -> Result<Option<Inspected>, DriverError> {
        let podman = self.standing.last().is_some_and(|fitness| fitness.meeting.podman);
        let may_follow = |found: &&Inspected| podman || was_killed(&found.state);
        let Some(killed) = found.as_ref().filter(may_follow) else { return Ok(found) };
        let deadline = Instant::now() + Duration::from_millis(REMOVAL_MAX_MS);
        while Instant::now() < deadline {
            let mark = self.mirror.mark(&killed.name);
            let _ =
                timeout(Duration::from_millis(REMOVAL_POLL_MS), self.mirror.moved(&killed.name, &mark)).await;
            let again = self.mirror.ask(&killed.id).await?;
            if again.is_none_or(|again| phase(&again.state) == Phase::Leaving) {
                return Ok(None);
            }
        }
        Ok(found)
    }

    /// Takes note of the run that the engine says is on. Absent where its PID 1 is not what it should be.
    pub async fn adopt(
        &self,
        sandbox: &SandboxId,
        run: &mut Run,
        found: &Inspected,
    ) -> Result<Option<Init>, DriverError> {
        let dir = self.dir(sandbox);
        let Some(init) = init_in(found)? else { return Ok(None) };
        if !self.vouch(&dir, &init, &found.id).await? {
            return Ok(None);
        }
        if !run.is_seen(&found.state) {
            self.notes.change(sandbox, Note::begin_anew);
        }
        if let Some(nonce) = labels_of(found).get(labels::LAUNCH) {
            run.nonce.clone_from(nonce);
        }
        run.container = Some(found.id.clone());
        run.seen = Some(found.state.started_at.clone());
        run.boot = Some(self.boot.clone());
        run.write(&dir)?;
        let written = files::replace(&dir.pid(), init.pid.to_string().as_bytes(), 0o600);
        written.map_err(failed("write the pid file"))?;
        Ok(Some(init))
    }

    /// Whether a container that the engine says runs lives in another PID namespace than hostd.
    pub fn is_elsewhere(&self, sandbox: &SandboxId, found: &Inspected) -> Result<bool, DriverError> {
        Ok(self.launched_elsewhere(sandbox)? && init_in(found)?.is_none())
    }

    /// Whether a container is that of this sandbox.
    pub fn is_ours(&self, sandbox: &SandboxId, run: &Run, found: &Inspected) -> bool {
        self.nonce_of(sandbox, found).is_some_and(|nonce| run.is_called(&nonce))
    }

    /// Whether it is one that this sandbox had before: an engine that was put back to an earlier day has it.
    pub fn was_ours(&self, sandbox: &SandboxId, run: &Run, found: &Inspected) -> bool {
        self.nonce_of(sandbox, found).is_some_and(|nonce| run.older.contains(&nonce))
    }

    fn nonce_of(&self, sandbox: &SandboxId, found: &Inspected) -> Option<String> {
        let claim = labels::read(&self.sealer, &found.name, labels_of(found)).ok()?;
        (claim.sandbox == *sandbox).then_some(claim.nonce)
    }

    fn running(&self, sandbox: &SandboxId, run: &Run, init: &Init) -> Result<ContainerState, DriverError> {
        let group = self.group(init, run.container.as_deref().unwrap_or_default())?;
        self.notes.change(sandbox, |note| {
            note.pid = Some(init.pid);
            note.group = group.clone().or(note.group.take());
            note.count();
            note.oom_kills_before = note.counters.as_ref().map_or(0, |counters| counters.oom_kills);
            note.is_final = false;
            note.away = false;
        });
        Ok(ContainerState::Running {
            frozen: group.is_some_and(|group| group.is_frozen()),
            handle: handle(run, init),
        })
    }

    pub async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match self.find(sandbox)? {
            Some(init) => wait_for_end(init).await,
            None => Ok(()),
        }
    }

    pub async fn changed(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (name, note) = (self.name(sandbox), self.notes.get(sandbox));
        // Where nothing was found, there is nothing to be compared with.
        let note = note.unwrap_or_else(|| Note { mark: self.mirror.mark(&name), ..Note::default() });
        let ended = async {
            if note.pid.is_none() {
                return std::future::pending().await;
            }
            self.died(sandbox).await?;
            self.count_last(sandbox);
            Ok(())
        };
        // Both only wait.
        tokio::select! {
            ended = ended => ended,
            () = self.mirror.moved(&name, &note.mark) => Ok(()),
        }
    }
}

pub fn handle(run: &Run, init: &Init) -> Handle {
    let (pid, start_time) = (init.pid, init.start_time);
    Handle(serde_json::json!({ "pid": pid, "start_time": start_time, "container": run.container }))
}

/// PID 1 of a container, by the number that the engine has for it.
fn init_in(found: &Inspected) -> Result<Option<Init>, DriverError> {
    match i32::try_from(found.state.pid).ok().filter(|pid| *pid > 1) {
        Some(pid) => Init::check(pid, |cgroup| is_in(cgroup, &found.id)).map_err(failed("look at PID 1")),
        None => Ok(None),
    }
}
