//! Brings a sandbox up. Every step may have been done before, by a hostd that died since: what is there is
//! used, or taken away first.
//!
//! ```text
//! turn ─▶ already running? ─▶ image, network, files, badge ─▶ number on disk ─▶ create ─▶ start ─▶ PID 1 checked
//! ```

mod start;

use super::{
    super::{
        DriverError, Handle, LaunchRequest,
        local::{
            badge::Kept,
            files::{self, failed},
            init::Init,
            layout::SandboxDir,
            owner,
            request::check_limits,
            workspace,
        },
    },
    body::{self, Body},
    driver::Inner,
    engine::{ContainerState, CreateContainer, EngineError, Inspected},
    ids::Ids,
    images::Wish,
    labels,
    limits::LAUNCH_STEPS_MAX,
    look::handle,
    meaning::{Phase, phase},
    mirror::labels_of,
    run::Run,
    standing::Fitness,
};
use crate::core::Blueprint;
use protocol::api::SandboxId;
use start::{Started, lost_its_network};
use std::{io, sync::Arc};
use tokio::time::Instant;

/// A container to be, and how it is told from others.
struct Wanted {
    sandbox: SandboxId,
    name: String,
    container: CreateContainer,
    hash: String,
}

/// What brings a launch nearer to its end.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Make,
    /// It was made from something else.
    Remove,
    Start,
    /// The engine is about to notice something.
    Wait,
    Adopt,
    /// Something else has the name.
    Taken,
}

/// Whose a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Of a launch before the last.
    Older,
    Foreign,
}

fn next(run: &Run, there: Option<(&ContainerState, Whose)>, same: bool) -> Next {
    let Some((state, whose)) = there else { return Next::Make };
    match whose {
        Whose::Foreign => return Next::Taken,
        Whose::Older if phase(state) == Phase::Leaving => return Next::Wait,
        Whose::Older => return Next::Remove,
        Whose::Ours => {}
    }
    match phase(state) {
        Phase::Leaving => Next::Wait,
        Phase::New | Phase::Over if !same || state.status == "dead" => Next::Remove,
        Phase::New | Phase::Over => Next::Start,
        // We ended it, and the engine does not know yet.
        Phase::Up if run.has_cleared(&state.started_at) => Next::Wait,
        Phase::Up => Next::Adopt,
    }
}

impl Inner {
    /// What this driver cannot do is refused before anything is made.
    pub async fn vet(&self, blueprint: &Blueprint, fitness: &Fitness) -> Result<(), DriverError> {
        check_limits(&blueprint.limits)?;
        self.images.find(&blueprint.image)?;
        self.networks.check(blueprint.network, fitness.meeting.podman).await
    }

    pub async fn bring_up(
        self: &Arc<Self>,
        order: &LaunchRequest,
        fitness: &Fitness,
    ) -> Result<Handle, DriverError> {
        self.vet(&order.blueprint, fitness).await?;
        let sandbox = order.label.sandbox;
        let begun = Instant::now();
        let turn = self.turns.take(&sandbox).await;
        if self.kept(&sandbox)?.is_some()
            && let Some(run) = Run::read(&self.dir(&sandbox))?
            && let Some(init) = self.init_of(&self.dir(&sandbox), &run)?
        {
            return Ok(handle(&run, &init));
        }
        let (kept, ids) = (order.clone(), fitness.ids.clone());
        // The turn goes along: the work goes on when nobody waits for it any more.
        let files = self.blocking(move |inner| inner.prepare_files(&kept, &ids).map(|()| turn));
        let (turn, wanted) = tokio::try_join!(files, self.wanted(order, fitness))?;
        let prepared = begun.elapsed();
        let inner = Arc::clone(self);
        // Goes on to its end when nobody waits for it any more: an engine cannot be told to stop in between.
        let raising = tokio::spawn(async move {
            let _turn = turn;
            inner.raise(wanted).await
        });
        let raised = raising.await.unwrap_or_else(|error| Err(failed("launch")(io::Error::other(error))));
        let (run, init) = raised?;
        tracing::debug!(%sandbox, pid = init.pid, ?prepared, launched = ?begun.elapsed(), "sandbox launched");
        Ok(handle(&run, &init))
    }

    /// The container as it should be, with its image there.
    async fn wanted(&self, order: &LaunchRequest, fitness: &Fitness) -> Result<Wanted, DriverError> {
        let (sandbox, blueprint) = (order.label.sandbox, &order.blueprint);
        let tenant = order.label.owner.tenant.as_str();
        let wish = Wish { image: &blueprint.image, tenant, progress: &order.progress };
        let prepared = self.images.prepare(&wish).await?;
        let network = self.networks.mode(blueprint.network, &sandbox, fitness.meeting.podman).await?;
        let (dir, workspace) = (self.dir(&sandbox), self.layout.workspace(&sandbox));
        let (control, public) = (dir.control(), dir.public());
        let body = Body {
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
            filter: &self.filter_list,
            podman: fitness.meeting.podman,
        };
        let container = body.container();
        let hash = body::hash(&container, &prepared.id);
        let hash = hash.map_err(|error| failed("describe the container")(error.into()))?;
        Ok(Wanted { sandbox, name: self.name(&sandbox), container, hash })
    }

    /// Everything on disk that a launch needs. May be repeated.
    fn prepare_files(&self, order: &LaunchRequest, ids: &Ids) -> Result<(), DriverError> {
        let sandbox = order.label.sandbox;
        let dir = self.dir(&sandbox);
        let make = || failed("make the directories of the sandbox");
        for (path, mode) in [(dir.path().to_owned(), 0o711), (dir.control(), 0o700), (dir.public(), 0o755)] {
            files::make_dir(&path, mode).map_err(make())?;
        }
        let kept = Kept {
            instance: self.sealer.instance.clone(),
            badge: order.label.clone(),
            blueprint: (*order.blueprint).clone(),
            uid_base: 0,
            pid_namespace: Some(self.pid_namespace),
        };
        if self.kept(&sandbox)?.as_ref() != Some(&kept) {
            let written = self.sealer.write(&dir, &kept).and_then(|file| file.sync_all());
            written.map_err(failed("write the badge"))?;
        }
        workspace::make(&self.layout, &sandbox)?;
        owner::hand_over(&self.layout, &sandbox, ids).map_err(failed("give the files to the sandbox"))
    }

    /// Step by step, each after a look at what is there.
    async fn raise(self: &Arc<Self>, wanted: Wanted) -> Result<(Run, Init), DriverError> {
        let dir = self.dir(&wanted.sandbox);
        let mut run = Run::read(&dir)?;
        // Nothing of it was ever made where there is no number.
        let mut found = match run {
            Some(_) => self.mirror.ask(&wanted.name).await?,
            None => None,
        };
        let mut started_before: Option<String> = None;
        for _ in 0..LAUNCH_STEPS_MAX {
            let known = run.clone().unwrap_or_default();
            let there =
                found.as_ref().map(|found| (&found.state, self.whose(&wanted.sandbox, &known, found)));
            let same = found.as_ref().is_some_and(|found| {
                labels_of(found).get(labels::BODY).is_some_and(|hash| *hash == wanted.hash)
            });
            match (next(&known, there, same), &found) {
                (Next::Make, _) | (_, None) => {
                    let made = self.make(&dir, run, &wanted).await?;
                    // What was just made need not be looked at first.
                    if let Some(id) = &made.container {
                        started_before = Some(String::new());
                        // Gone again, so soon: whoever tries anew makes sure of everything first.
                        if let Started::Outdated { why } = self.start(id).await? {
                            return Err(DriverError::Unavailable { message: why });
                        }
                    }
                    run = Some(made);
                }
                (Next::Remove, Some(found)) => self.remove_by_id(&found.id).await?,
                (Next::Wait, Some(found)) => self.noticed(&wanted.name, found).await?,
                (Next::Taken, Some(found)) => return Err(taken(found)),
                (Next::Adopt, Some(found)) => {
                    let mut run = known;
                    if let Some(init) = self.adopt(&wanted.sandbox, &mut run, found).await? {
                        return Ok((run, init));
                    }
                    self.noticed(&wanted.name, found).await?;
                }
                (Next::Start, Some(found)) => {
                    let started_at = &found.state.started_at;
                    let again = started_before.as_ref().is_some_and(|before| before != started_at);
                    if again && phase(&found.state) == Phase::Over {
                        return Err(self.ended_at_once(&found.id).await);
                    }
                    started_before = Some(started_at.clone());
                    match self.start(&found.id).await {
                        Ok(Started::Tried | Started::Outdated { .. }) => {}
                        Ok(Started::Busy) => self.noticed(&wanted.name, found).await?,
                        // An engine that was killed meanwhile may have broken remains of it: of a new one
                        // there are none.
                        Err(error @ DriverError::Failed { .. }) => {
                            tracing::warn!(container = found.name, %error, "it is made again");
                            self.scrap_container(&found.id).await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            found = self.mirror.ask(&wanted.name).await?;
        }
        let message = format!("{} does not stay as it is put: somebody else changes it", wanted.name);
        Err(DriverError::Failed { message, output: vec![] })
    }

    /// The number is on the disk before the engine hears of it.
    async fn make(
        self: &Arc<Self>,
        dir: &SandboxDir,
        old: Option<Run>,
        wanted: &Wanted,
    ) -> Result<Run, DriverError> {
        let mut run = Run::renewed(old);
        let (kept, place) = (run.clone(), dir.clone());
        self.blocking(move |_| kept.keep(&place)).await?;
        let mut container = wanted.container.clone();
        container.labels = labels::make(&self.sealer, &wanted.sandbox, &run.nonce);
        container.labels.insert(labels::BODY.to_owned(), wanted.hash.clone());
        match self.engine.create(&wanted.name, &container).await {
            Ok(id) => run.container = Some(id),
            // From a launch that was cut off, or somebody else's: the next look tells.
            Err(EngineError::Conflict(why)) => {
                self.remove_remains(&why).await?;
                return Ok(run);
            }
            Err(EngineError::NotFound(message)) if lost_its_network(&message) => {
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

    fn whose(&self, sandbox: &SandboxId, run: &Run, found: &Inspected) -> Whose {
        match (self.is_ours(sandbox, run, found), self.was_ours(sandbox, run, found)) {
            (true, _) => Whose::Ours,
            (false, true) => Whose::Older,
            (false, false) => Whose::Foreign,
        }
    }
}

fn taken(found: &Inspected) -> DriverError {
    let message =
        format!("there is a container {} that is not of this sandbox: remove or rename it", found.name);
    DriverError::NameTaken { message }
}

#[cfg(test)]
mod tests;
