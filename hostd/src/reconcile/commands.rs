//! Commands to one sandbox: checked, recorded and answered; performing them is left to the plan.

use super::{
    FleetError, SandboxCommand,
    actor::{ActorMessage, CommandReply, SandboxActor},
    disk_limits::over_limit_problem,
    disk_pressure::eviction_problem,
    sandbox_command::EvictionCause,
};
use hostd_core::{Goal, Renewal, Transition, TransitionRefused};
use hostd_store::{SandboxUpdate, StoreError};
use hostd_trace::Span;
use protocol::api::SandboxStatus;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

impl SandboxActor {
    pub(super) async fn handle(&mut self, message: ActorMessage) {
        match message {
            ActorMessage::Command(command, cause, reply) => {
                // Boxed: the future of an actor stays small while no command is handled.
                let result = Box::pin(cause.clone().within(self.accept(command))).await;
                if result.is_ok() {
                    self.cause = cause;
                }
                // The caller may be gone. The command is recorded all the same.
                let _ = reply.send(result);
            }
            ActorMessage::Capture(order, extent, reply) => {
                let _ = reply.send(Box::pin(self.capture(&order, extent)).await);
            }
            ActorMessage::Restore(step, reply) => {
                let _ = reply.send(Box::pin(self.restore_step(step)).await);
            }
            ActorMessage::RecordChanged => {}
        }
    }

    async fn accept(&mut self, command: SandboxCommand) -> CommandReply {
        if self.record().other_pid_namespace {
            return Err(self.other_pid_namespace().into());
        }
        if !self.restore.allows(command) {
            return Err(FleetError::Restoring);
        }
        match command {
            SandboxCommand::Thaw if !self.record().state.stays_up() => {
                Err(TransitionRefused::NotRunning.into())
            }
            SandboxCommand::Start | SandboxCommand::Resume | SandboxCommand::Thaw
                if self.is_only_frozen() =>
            {
                self.thaw_at_once().await
            }
            SandboxCommand::Start | SandboxCommand::Resume | SandboxCommand::Thaw => {
                self.check_room_to_launch()?;
                self.admit_launch()?;
                let launched = self.set_goal(Goal::Running).await;
                self.release_unrecorded_launch(launched)
            }
            SandboxCommand::Stop => self.set_goal(Goal::Stopped).await,
            SandboxCommand::Pause => self.set_goal(Goal::Paused).await,
            SandboxCommand::Destroy { keep_workspace } => match self.destroy(keep_workspace).await {
                Err(FleetError::Store(StoreError::Full)) => self.destroy_on_full_disk(keep_workspace).await,
                reply => reply,
            },
            SandboxCommand::Evict(EvictionCause::MemoryPressure { available_bytes, reserve_bytes }) => {
                self.evict_if_idle(available_bytes, reserve_bytes).await
            }
            SandboxCommand::Doze => self.doze_if_idle().await,
            SandboxCommand::Resize(change) => self.resize(&change).await,
            SandboxCommand::Evict(cause) => {
                let problem = match cause {
                    EvictionCause::Grew { grown_bytes } => {
                        eviction_problem(grown_bytes, &self.fleet.disk.state())
                    }
                    EvictionCause::OverLimit { used_bytes, limit_bytes } => {
                        over_limit_problem(used_bytes, limit_bytes)
                    }
                    EvictionCause::MemoryPressure { .. } => return Err(FleetError::InUse),
                };
                let deadline_ms = self.deadline_ms(Goal::Stopped);
                self.transition(Transition::Evict { problem, deadline_ms }).await
            }
            SandboxCommand::Recreate { keep_workspace } => {
                if keep_workspace {
                    self.check_room_to_launch()?;
                }
                self.admit_launch()?;
                let deadline_ms = self.deadline_ms(Goal::Stopped) + self.fleet.timing.up_ms;
                let renewal = Renewal { keep_workspace };
                let launched = self.transition(Transition::Renew { renewal, deadline_ms }).await;
                self.release_unrecorded_launch(launched)
            }
        }
    }

    pub(super) async fn destroy(&mut self, keep_workspace: bool) -> CommandReply {
        if keep_workspace {
            let change = SandboxUpdate { keep_workspace: Some(true), ..SandboxUpdate::default() };
            let now_ms = self.fleet.clock.now_ms();
            self.fleet.store.update_sandbox(&self.id(), change, now_ms).await?;
        }
        self.set_goal(Goal::Destroyed).await
    }

    fn is_only_frozen(&self) -> bool {
        let state = &self.record().state;
        self.situation.is_ready() && state.status == SandboxStatus::Paused && state.operation.is_none()
    }

    /// Thaws first and records after, because a client waits for it. A sandbox that is thawed and not recorded as
    /// such is frozen again after the next inspection.
    async fn thaw_at_once(&mut self) -> CommandReply {
        let id = self.id();
        let within = Duration::from_millis(self.fleet.timing.freeze_ms);
        let thawed = Span::child("driver").run_fallible(self.driver.thaw(&id));
        if !matches!(timeout(within, thawed).await, Ok(Ok(()))) {
            return self.set_goal(Goal::Running).await;
        }
        let (deadline_ms, now_ms) = (self.deadline_ms(Goal::Running), self.fleet.clock.now_ms());
        let accepted = Transition::Accept { goal: Goal::Running, deadline_ms };
        let store = &self.fleet.store;
        self.situation.act();
        // In this order; they may share a commit.
        let (accepted, reached) = tokio::join!(
            store.transition_sandbox(&id, accepted, now_ms),
            store.transition_sandbox(&id, Transition::Reached, now_ms)
        );
        self.publisher.put(Arc::new(accepted?));
        let record = Arc::new(reached?);
        self.publisher.put(record.clone());
        Ok(record)
    }
}
