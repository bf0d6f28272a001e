//! Waking a sandbox, and the way to its runtimed.

use super::{Fleet, FleetError, SandboxCommand, fleet::Record};
use async_trait::async_trait;
use hostd_core::TransitionRefused;
use hostd_drivers::{DriverError, control::Control};
use hostd_edge::{WakeError, Waker};
use hostd_store::{SandboxRecord, StoreError};
use hostd_trace::{Attribute, Span};
use protocol::api::{ApiErrorCode, SandboxId, SandboxStatus};
use std::time::{Duration, Instant};

impl Fleet {
    /// Wakes a sandbox that sleeps (stopped or paused), waits until it answers, and returns the way to it. Launches
    /// it once however many clients ask. The sandbox is not put to sleep while the `Control` lives; one that dozed
    /// is frozen again soon, unless there is activity.
    pub async fn wake(&self, id: &SandboxId) -> Result<(Record, Control), FleetError> {
        self.wake_with(id, SandboxCommand::Start).await
    }

    /// Thaws a sandbox that is only frozen, as `wake` does; one that is stopped is refused.
    pub async fn thaw(&self, id: &SandboxId) -> Result<(Record, Control), FleetError> {
        self.wake_with(id, SandboxCommand::Thaw).await
    }

    async fn wake_with(
        &self,
        id: &SandboxId,
        command: SandboxCommand,
    ) -> Result<(Record, Control), FleetError> {
        let handle = self.actor(id).await?.map_err(|_| TransitionRefused::Destroyed)?;
        // The lease is taken before the record is read: an actor that puts the sandbox to sleep records that first
        // and looks for leases after. One of the two sees the other.
        let control = handle.control(*id);
        handle.traffic.record_wake();
        let record = handle.record.borrow().clone();
        reachable(&record)?;
        if record.state.is_up() {
            return Ok((record, control));
        }
        if !record.state.dozing {
            handle.traffic.touch();
        }
        if record.state.status == SandboxStatus::Error && record.state.operation.is_none() {
            let problem = record.state.problem.clone().map(Box::new);
            let problem = problem.ok_or(FleetError::NotRunning { status: "error" })?;
            return Err(FleetError::Failed { sandbox: *id, problem });
        }
        let (from, begun) = (record.state.status, Instant::now());
        let woken = async {
            self.send(id, command).await?;
            let within = Duration::from_millis(self.timing().up_ms + self.timing().down_ms);
            self.wait_settled(id, within).await
        };
        let record = Span::child("wake").with(Attribute::Sandbox(*id)).run_fallible(woken).await?;
        if !record.state.is_up() {
            return Err(not_running(&record));
        }
        // One that is being created is only waited for.
        if from != SandboxStatus::Creating {
            self.metrics().count_wake(from, begun.elapsed());
        }
        Ok((record, control))
    }

    /// The way to a sandbox that runs now; `NotRunning` otherwise.
    pub async fn control(&self, id: &SandboxId) -> Result<(Record, Control), FleetError> {
        let handle = self.actor(id).await?.map_err(|record| not_running(&record))?;
        // The lease first, as in `wake`.
        let control = handle.control(*id);
        let record = handle.record.borrow().clone();
        reachable(&record)?;
        if record.state.is_up() { Ok((record, control)) } else { Err(not_running(&record)) }
    }
}

/// The edge wakes sandboxes as any work does.
#[async_trait]
impl Waker for Fleet {
    async fn wake(&self, id: &SandboxId) -> Result<Control, WakeError> {
        self.wake_for_work(id).await.map(|(_, control)| control).map_err(|error| wake_error(&error))
    }

    async fn thaw(&self, id: &SandboxId) -> Result<Control, WakeError> {
        Fleet::thaw(self, id).await.map(|(_, control)| control).map_err(|error| wake_error(&error))
    }
}

fn wake_error(error: &FleetError) -> WakeError {
    let code = match error {
        FleetError::NotRunning { .. } => return WakeError::Stopped { message: error.to_string() },
        FleetError::NotFound => ApiErrorCode::NotFound,
        FleetError::Refused(_) => ApiErrorCode::Gone,
        FleetError::Failed { problem, .. } => problem.code.as_error(),
        FleetError::InProgress => ApiErrorCode::Waking,
        FleetError::TooMany => ApiErrorCode::TooMany,
        FleetError::DiskFull(_) | FleetError::Store(StoreError::Full) => ApiErrorCode::DiskFull,
        FleetError::QuotaExceeded(_) => ApiErrorCode::QuotaExceeded,
        FleetError::Capacity(_) => ApiErrorCode::Capacity,
        FleetError::InUse | FleetError::Restoring => ApiErrorCode::Conflict,
        FleetError::ShuttingDown => ApiErrorCode::ShuttingDown,
        FleetError::Driver(_) => ApiErrorCode::DriverUnavailable,
        FleetError::Store(_) => ApiErrorCode::Internal,
        FleetError::Control(_) => ApiErrorCode::TimedOut,
    };
    WakeError::Failed { code, message: error.to_string() }
}

/// Refuses a sandbox whose processes live in another PID namespace.
pub(super) fn reachable(record: &SandboxRecord) -> Result<(), FleetError> {
    match record.other_pid_namespace {
        true => Err(DriverError::OtherPidNamespace { sandbox: record.id }.into()),
        false => Ok(()),
    }
}

fn not_running(record: &SandboxRecord) -> FleetError {
    let status = match record.state.status {
        SandboxStatus::Creating => "being created",
        // An operation is under way.
        SandboxStatus::Running => "on its way down",
        SandboxStatus::Paused => "paused",
        SandboxStatus::Stopped => "stopped",
        SandboxStatus::Error => "in error",
        SandboxStatus::Destroyed => return TransitionRefused::Destroyed.into(),
    };
    FleetError::NotRunning { status }
}
