//! A follower for each kind of work, and the steps that it reports.

use super::{exec::ExecFollower, sandbox::SandboxFollower, task::TaskFollower};
use crate::{
    ApiFailure,
    mcp::{call::Call, event_id::Work, limits},
};
use protocol::api::ApiErrorCode;
use rmcp::model::{CallToolResult, JsonObject};
use std::time::Duration;

/// A finding of a follower.
#[derive(Debug)]
pub enum Step {
    Progress(Progress),
    /// The result of the call.
    Done(Box<CallToolResult>),
    /// hostd is shutting down, or cannot read on: the client resumes.
    Interrupted,
}

#[derive(Debug)]
pub struct Progress {
    /// Everything up to here was reported.
    pub position: u64,
    pub message: String,
    pub meta: Option<JsonObject>,
}

pub enum Follower {
    Exec(ExecFollower),
    Task(TaskFollower),
    Sandbox(SandboxFollower),
}

impl Follower {
    pub fn new(call: Call, work: Work, position: u64) -> Self {
        match work {
            Work::Exec(sandbox, exec) => Self::Exec(ExecFollower::new(call, sandbox, &exec, position)),
            Work::Task(sandbox, task) => Self::Task(TaskFollower::new(call, sandbox, &task, position)),
            Work::Sandbox(sandbox) => Self::Sandbox(SandboxFollower::new(call, sandbox, position)),
        }
    }

    pub async fn next(&mut self) -> Step {
        match self {
            Self::Exec(follower) => follower.next().await,
            Self::Task(follower) => follower.next().await,
            Self::Sandbox(follower) => follower.next().await,
        }
    }
}

/// Counts failures of one stream or call, and pauses between them.
#[derive(Debug, Default)]
pub struct Reopening {
    failures: u32,
}

impl Reopening {
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Pauses after a failure that may pass; returns the step that ends the call for others.
    pub async fn after(&mut self, failure: ApiFailure) -> Option<Step> {
        let code = failure.error.code;
        if code == ApiErrorCode::ShuttingDown {
            return Some(Step::Interrupted);
        }
        if !may_pass(code) {
            return Some(failed(failure));
        }
        self.failures += 1;
        if self.failures > limits::REOPEN_MAX {
            return Some(failed(failure));
        }
        self.pause().await;
        None
    }

    /// The same for a stream that broke. When hostd shuts down it ends all streams, also those that are opened then.
    pub async fn after_cut(&mut self) -> Option<Step> {
        self.failures += 1;
        if self.failures > limits::CUTS_MAX {
            return Some(Step::Interrupted);
        }
        self.pause().await;
        None
    }

    async fn pause(&self) {
        let pause_ms = limits::REOPEN_PAUSE_MS * u64::from(self.failures);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
}

/// Whether a repeated call may succeed: the backend or the sandbox is busy, or its state is changing.
fn may_pass(code: ApiErrorCode) -> bool {
    matches!(
        code,
        ApiErrorCode::Waking
            | ApiErrorCode::DriverUnavailable
            | ApiErrorCode::Capacity
            | ApiErrorCode::TooMany
            | ApiErrorCode::TimedOut
            | ApiErrorCode::Internal
            | ApiErrorCode::NotRunning
            | ApiErrorCode::Asleep
            | ApiErrorCode::Conflict
    )
}

fn failed(failure: ApiFailure) -> Step {
    Step::Done(Box::new(crate::mcp::tools::failed(failure.into())))
}
