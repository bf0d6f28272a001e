//! Restores: the files of a sandbox are replaced by those of a snapshot, and the sandbox starts with them.
//!
//! ```text
//!  begin: goal stopped ─▶ swap: the old files become a backup ─▶ launch ─▶ runs: commit, the backup goes
//!                                                                   └─▶ does not: stop, roll back, launch
//! ```
//!
//! From `begin` to the end the actor refuses every command but destroy, so nothing runs in files that may yet go. A
//! backup that an earlier hostd left says that its restore was interrupted: the actor ends it when it knows whether the
//! sandbox runs, before it plans anything. So it does with one that cannot be rolled back.

use super::{
    Fleet, FleetError, SandboxCommand,
    actor::{ActorMessage, SandboxActor},
    fleet::Record,
    snapshots::snapshots_of,
};
use hostd_core::{Goal, Observed};
use hostd_drivers::{ContainerState, ReplacementOutcome};
use hostd_store::failpoint;
use protocol::api::{SandboxId, SandboxStatus, SnapshotId};
use std::{collections::HashSet, time::Duration};
use tokio::sync::oneshot;
use tracing::{info, warn};

/// The longest that a restore waits for a sandbox to stop, and to start.
const SETTLE_MAX: Duration = Duration::from_secs(300);

/// How far the restore of a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestoreState {
    None,
    /// The sandbox stops; its files are its own.
    Begun,
    /// Its files are those of the snapshot, or are about to be; the old ones are a backup.
    Swapped,
    /// An earlier hostd left a backup, or a restore could not be rolled back.
    Interrupted,
    /// The new files stay. The backup is still to be removed.
    Kept,
}

/// A step of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestoreStep {
    /// Stops the sandbox; from now on it obeys the restore alone.
    Begin,
    Swap(SnapshotId),
    Launch,
    Stop,
    /// Removes the backup.
    Commit,
    /// Puts the backup in the place of the new files.
    RollBack,
    /// Leaves the end of a restore that cannot be rolled back to the actor.
    GiveUp,
}

impl RestoreState {
    /// Returns the state of a sandbox when hostd starts, by the sandboxes that have a backup.
    pub(super) fn found(interrupted: &HashSet<SandboxId>, sandbox: &SandboxId) -> Self {
        if interrupted.contains(sandbox) { Self::Interrupted } else { Self::None }
    }

    /// Whether a command may be carried out now.
    pub(super) fn allows(self, command: SandboxCommand) -> bool {
        self.is_over() || matches!(command, SandboxCommand::Destroy { .. })
    }

    /// Whether the files of the sandbox stay its own.
    pub(super) fn is_over(self) -> bool {
        match self {
            Self::None | Self::Kept => true,
            Self::Begun | Self::Swapped | Self::Interrupted => false,
        }
    }

    /// The state after the restore was given up.
    fn given_up(self) -> Self {
        match self {
            Self::None | Self::Begun => Self::None,
            Self::Swapped | Self::Interrupted => Self::Interrupted,
            Self::Kept => Self::Kept,
        }
    }

    /// Returns how the actor ends a restore by itself; `None` where it does not, or cannot know yet.
    fn ending(self, observed: &Observed) -> Option<ReplacementOutcome> {
        match self {
            Self::None | Self::Begun | Self::Swapped => None,
            Self::Kept => Some(ReplacementOutcome::KeepNew),
            Self::Interrupted => keeps_new_files(observed).map(|keeps| match keeps {
                true => ReplacementOutcome::KeepNew,
                false => ReplacementOutcome::RollBack,
            }),
        }
    }
}

/// Returns whether an interrupted restore keeps the new files; `None` while that cannot be known.
fn keeps_new_files(observed: &Observed) -> Option<bool> {
    match observed {
        Observed::Running { ready: true, .. } => Some(true),
        Observed::Absent | Observed::Dead(_) => Some(false),
        Observed::Running { ready: false, .. }
        | Observed::Launching
        | Observed::OtherPidNamespace
        | Observed::Unknown => None,
    }
}

impl Fleet {
    /// Replaces the files of a sandbox by those of a snapshot. The old ones are kept until the sandbox runs again, and
    /// come back if it does not.
    pub async fn restore_snapshot(
        &self,
        sandbox: &SandboxId,
        snapshot: &SnapshotId,
    ) -> Result<Record, FleetError> {
        self.check_disk_room()?;
        let (fleet, sandbox, snapshot) = (self.clone(), *sandbox, *snapshot);
        self.run_to_end(async move { fleet.restore(&sandbox, &snapshot).await }).await
    }

    async fn restore(&self, sandbox: &SandboxId, snapshot: &SnapshotId) -> Result<Record, FleetError> {
        let was_up = self.record(sandbox).await?.state.is_wanted_up();
        self.restore_step(sandbox, RestoreStep::Begin).await?;
        failpoint::hit("restore.begun");
        if let Err(error) = self.try_snapshot(sandbox, snapshot, was_up).await {
            warn!(%sandbox, %snapshot, %error, "restore failed, rolling back the workspace");
            self.roll_back(sandbox, was_up).await;
            return Err(error);
        }
        let committed = self.restore_step(sandbox, RestoreStep::Commit).await;
        failpoint::hit("restore.committed");
        // The new files stay, also where that cannot be promised yet: the actor tries again.
        self.inner().store.sandbox_restored(sandbox, snapshot).await?;
        self.note_files_changed(sandbox);
        self.charge_layers_soon().await;
        committed?;
        self.record(sandbox).await
    }

    async fn try_snapshot(
        &self,
        sandbox: &SandboxId,
        snapshot: &SnapshotId,
        was_up: bool,
    ) -> Result<(), FleetError> {
        self.wait_settled(sandbox, SETTLE_MAX).await?;
        self.restore_step(sandbox, RestoreStep::Swap(*snapshot)).await?;
        failpoint::hit("restore.swapped");
        if was_up {
            self.restore_step(sandbox, RestoreStep::Launch).await?;
            self.wait_settled(sandbox, SETTLE_MAX).await?;
            failpoint::hit("restore.launched");
        }
        Ok(())
    }

    /// Ends a restore that failed. The first error is the one that matters: those of this are logged.
    async fn roll_back(&self, sandbox: &SandboxId, was_up: bool) {
        let rolled_back = async {
            self.restore_step(sandbox, RestoreStep::Stop).await?;
            // An error of the sandbox is no reason to keep files that do not start.
            if let Err(error) = self.wait_settled(sandbox, SETTLE_MAX).await {
                info!(%sandbox, %error, "sandbox stopped with an error before its files were rolled back");
            }
            self.restore_step(sandbox, RestoreStep::RollBack).await?;
            if was_up {
                self.command(sandbox, SandboxCommand::Start).await?;
                self.wait_settled(sandbox, SETTLE_MAX).await?;
            }
            Ok::<_, FleetError>(())
        };
        if let Err(error) = rolled_back.await {
            warn!(%sandbox, %error, "failed to roll a restore back");
            if let Err(error) = self.restore_step(sandbox, RestoreStep::GiveUp).await {
                info!(%sandbox, %error, "a restore ends with its sandbox, or with the next hostd");
            }
        }
    }

    async fn restore_step(&self, sandbox: &SandboxId, step: RestoreStep) -> Result<(), FleetError> {
        let (reply, replied) = oneshot::channel();
        self.deliver(sandbox, ActorMessage::Restore(step, reply)).await?;
        replied.await.unwrap_or(Err(FleetError::ShuttingDown))
    }

    /// The sandboxes whose restore was interrupted with an earlier hostd.
    pub(super) async fn interrupted_restores(&self) -> HashSet<SandboxId> {
        let mut found = HashSet::new();
        for driver in self.inner().drivers.all() {
            let Some(verbs) = driver.snapshots() else { continue };
            match verbs.replacements().await {
                Ok(sandboxes) => found.extend(sandboxes),
                Err(error) => warn!(%error, "failed to look for interrupted restores"),
            }
        }
        found
    }
}

impl SandboxActor {
    pub(super) async fn restore_step(&mut self, step: RestoreStep) -> Result<(), FleetError> {
        match step {
            RestoreStep::Begin => {
                if !self.restore.is_over() {
                    return Err(FleetError::Restoring);
                }
                self.set_goal(Goal::Stopped).await?;
                self.restore = RestoreState::Begun;
                Ok(())
            }
            RestoreStep::Swap(snapshot) => self.swap_files(&snapshot).await,
            RestoreStep::Launch => {
                self.check_room_to_launch()?;
                self.admit_launch()?;
                let launched = self.set_goal(Goal::Running).await;
                self.release_unrecorded_launch(launched).map(drop)
            }
            RestoreStep::Stop => self.set_goal(Goal::Stopped).await.map(drop),
            RestoreStep::Commit => {
                // The sandbox runs with its new files, whether or not the old ones can be removed.
                self.restore = RestoreState::Kept;
                let driver = self.driver.clone();
                let kept = ReplacementOutcome::KeepNew;
                snapshots_of(&driver)?.finish_replacement(&self.id(), kept).await?;
                self.restore = RestoreState::None;
                Ok(())
            }
            RestoreStep::RollBack => self.roll_files_back().await,
            RestoreStep::GiveUp => {
                self.restore = self.restore.given_up();
                Ok(())
            }
        }
    }

    async fn swap_files(&mut self, snapshot: &SnapshotId) -> Result<(), FleetError> {
        self.check_settled()?;
        self.check_is_down().await?;
        let driver = self.driver.clone();
        self.restore = RestoreState::Swapped;
        Ok(snapshots_of(&driver)?.replace_workspace(&self.id(), snapshot).await?)
    }

    async fn roll_files_back(&mut self) -> Result<(), FleetError> {
        if self.restore == RestoreState::Swapped {
            self.restore = RestoreState::Interrupted;
            self.check_is_down().await?;
            let driver = self.driver.clone();
            snapshots_of(&driver)?.finish_replacement(&self.id(), ReplacementOutcome::RollBack).await?;
        }
        self.restore = RestoreState::None;
        Ok(())
    }

    async fn check_is_down(&self) -> Result<(), FleetError> {
        match self.driver.inspect(&self.id()).await? {
            ContainerState::Absent | ContainerState::Dead(_) => Ok(()),
            ContainerState::Launching
            | ContainerState::Running { .. }
            | ContainerState::OtherPidNamespace => Err(FleetError::InUse),
        }
    }

    /// Ends a restore that was interrupted, once it is known whether the sandbox runs with the new files.
    pub(super) async fn end_interrupted_restore(&mut self, observed: &Observed) {
        if self.record().state.status == SandboxStatus::Destroyed {
            return;
        }
        let (sandbox, driver) = (self.id(), self.driver.clone());
        let (Some(outcome), Some(verbs)) = (self.restore.ending(observed), driver.snapshots()) else {
            return;
        };
        match verbs.finish_replacement(&sandbox, outcome).await {
            Ok(()) => {
                self.restore = RestoreState::None;
                info!(%sandbox, ?outcome, "ended an interrupted restore");
            }
            Err(error) => warn!(%sandbox, %error, "failed to end an interrupted restore"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_core::Death;

    #[test]
    fn a_restore_lets_only_a_destroy_through() {
        let destroy = SandboxCommand::Destroy { keep_workspace: false };
        for state in [RestoreState::Begun, RestoreState::Swapped, RestoreState::Interrupted] {
            assert!(state.allows(destroy));
            for command in [SandboxCommand::Start, SandboxCommand::Stop, SandboxCommand::Doze] {
                assert!(!state.allows(command), "{state:?} {command:?}");
            }
        }
        for state in [RestoreState::None, RestoreState::Kept] {
            assert!(state.allows(SandboxCommand::Start));
        }
    }

    #[test]
    fn a_restore_that_is_given_up_is_ended_by_the_actor() {
        use ReplacementOutcome::{KeepNew, RollBack};
        let (up, down) = (Observed::Running { frozen: false, ready: true }, Observed::Absent);
        for (state, when_up, when_down) in [
            (RestoreState::None, None, None),
            (RestoreState::Begun, None, None),
            (RestoreState::Swapped, Some(KeepNew), Some(RollBack)),
            (RestoreState::Interrupted, Some(KeepNew), Some(RollBack)),
            (RestoreState::Kept, Some(KeepNew), Some(KeepNew)),
        ] {
            let given_up = state.given_up();
            assert_eq!((given_up.ending(&up), given_up.ending(&down)), (when_up, when_down), "{state:?}");
            assert!(given_up.is_over() || given_up == RestoreState::Interrupted, "{state:?}");
        }
    }

    #[test]
    fn an_interrupted_restore_waits_until_it_is_known_whether_the_sandbox_runs() {
        for (observed, expected) in [
            (Observed::Running { frozen: false, ready: true }, Some(true)),
            (Observed::Running { frozen: false, ready: false }, None),
            (Observed::Absent, Some(false)),
            (Observed::Dead(Death::default()), Some(false)),
            (Observed::Launching, None),
            (Observed::Unknown, None),
            (Observed::OtherPidNamespace, None),
        ] {
            assert_eq!(keeps_new_files(&observed), expected, "{observed:?}");
        }
    }
}
