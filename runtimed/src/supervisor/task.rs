//! One task, from its request until its directory is removed, and its published event log.

use super::execs::Refusal;
use super::jobs::JobId;
use super::output_log::OutputLog;
use super::permissions::OpenPermissions;
use crate::checkpoint::IndexMark;
use crate::core::task::{Machine, Stage};
use crate::log::segment::Segment;
use crate::log::task_log::{self, TaskLog};
use crate::shim::messages::{Claim, JobSummary};
use protocol::{
    AgentKind, BuildOutcome, BuildStatus, Changes, Checkpoint, Cursor, Exit, FailureReason, Hint, Payload,
    ServiceName, TaskId, TaskPhase, TaskRequest, TaskResult, TaskStatus, TaskView,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The file of a task that holds its [`Start`].
pub const START: &str = "task.json";

/// The record of a task, written when it is accepted. Never holds environment variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub agent: AgentKind,
    /// The name of the agent; hostd reads it where it has no other record of the task.
    #[serde(default)]
    pub name: Box<str>,
    pub created_ms: u64,
    /// Hash of the request, to tell a repeated request from another one with the same id.
    pub fingerprint: u64,
}

pub struct Task {
    pub id: TaskId,
    pub start: Start,
    pub started_ms: Option<u64>,
    pub events: TaskEventLog,
    /// The raw log of an agent with a structured protocol.
    pub raw: OutputLog,
    /// The document of what the task changed, as `protocol::changes` has it.
    pub changes: OutputLog,
    pub state: State,
}

pub enum State {
    Live(Box<LiveTask>),
    Ending(Box<EndingTask>),
    Done(TaskEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskEnd {
    pub status: TaskStatus,
    pub reason: Option<FailureReason>,
    pub ended_ms: u64,
}

/// A task whose work is over and whose last event is not written yet.
pub struct EndingTask {
    pub result: TaskResult,
    pub ended_ms: u64,
    /// A shim that was killed and may be within its last write.
    pub writer: Option<JobId>,
    /// When the last event is written, whatever became of that shim; retried until it is.
    pub due: u64,
    /// The error was logged already.
    pub refused: bool,
}

/// A queued or running task, and its result so far.
pub struct LiveTask {
    pub machine: Machine,
    pub request: TaskRequest,
    pub job: Option<(JobId, Stage)>,
    /// The writer of events; `None` while a shim writes them.
    pub writer: Option<TaskLog>,
    pub feeding: Option<AbortHandle>,
    /// The session that the agent continues.
    pub session: Option<String>,
    pub summary: JobSummary,
    pub message: Option<String>,
    pub exit: Option<Exit>,
    /// Permissions that the agent asked for.
    pub permissions: OpenPermissions,
    /// The job was started in advance and has not confirmed that it took this task.
    pub adopting: bool,
    /// The agent's claim of its outcome.
    pub claim: Option<Claim>,
    pub hints: Vec<Hint>,
    pub final_message: Option<Payload>,
    /// The end of the agent's output that is no message.
    pub agent_stderr: Option<Payload>,
    pub checkpoint: Checkpoint,
    /// The private index as the checkpoint left it.
    pub index: Option<IndexMark>,
    pub changes: Option<Changes>,
    pub build: BuildOutcome,
    pub build_since: u64,
    /// The services that were not ready at the last check, if there was one.
    pub unready: Option<Vec<ServiceName>>,
    pub any_service: bool,
}

impl LiveTask {
    pub fn new(machine: Machine, request: TaskRequest, writer: TaskLog) -> Self {
        Self {
            machine,
            request,
            job: None,
            writer: Some(writer),
            feeding: None,
            session: None,
            summary: JobSummary::default(),
            message: None,
            exit: None,
            permissions: OpenPermissions::default(),
            adopting: false,
            claim: None,
            hints: Vec::new(),
            final_message: None,
            agent_stderr: None,
            checkpoint: Checkpoint::Unavailable { why: "the task did not come that far".to_owned() },
            index: None,
            changes: None,
            build: no_build(),
            build_since: 0,
            unready: None,
            any_service: false,
        }
    }
}

pub fn no_build() -> BuildOutcome {
    BuildOutcome { status: BuildStatus::Skipped, exit: None, output: None, duration_ms: 0 }
}

/// Published end of a task's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskHead {
    pub last: u64,
    /// The last event is `done`.
    pub done: bool,
}

/// The events of a task as the supervisor tracks them.
pub struct TaskEventLog {
    pub dir: PathBuf,
    pub segments: Vec<Segment>,
    head: watch::Sender<TaskHead>,
    armed: Option<u64>,
}

/// The events of a task, to read and follow.
pub struct TaskEvents {
    pub dir: PathBuf,
    pub oldest: u64,
    pub head: watch::Receiver<TaskHead>,
}

impl TaskEventLog {
    pub fn new(dir: PathBuf, segments: Vec<Segment>, head: TaskHead) -> Self {
        Self { dir, segments, head: watch::Sender::new(head), armed: None }
    }

    pub fn head(&self) -> TaskHead {
        *self.head.borrow()
    }

    pub fn oldest(&self) -> u64 {
        self.segments.first().map_or(1, |segment| segment.start)
    }

    pub fn handle(&self) -> TaskEvents {
        TaskEvents { dir: self.dir.clone(), oldest: self.oldest(), head: self.head.subscribe() }
    }

    pub fn measure(&mut self) {
        self.segments = task_log::segments(&self.dir);
    }

    pub fn grew(&mut self, last: u64) {
        self.armed = None;
        self.head.send_modify(|head| head.last = head.last.max(last));
    }

    pub fn done(&self, last: u64) {
        self.head.send_replace(TaskHead { last, done: true });
    }

    /// Whether the shim has to be asked again to report growth after `seen`.
    pub fn arm(&mut self, seen: u64) -> bool {
        let news = self.armed.is_none_or(|armed| seen < armed);
        if news {
            self.armed = Some(seen);
        }
        news
    }

    pub fn disarm(&mut self) {
        self.armed = None;
    }

    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::disk_bytes).sum()
    }

    pub fn remove_segment(&mut self, start: u64) {
        if let Err(error) = task_log::remove(&self.dir, start) {
            tracing::error!(dir = %self.dir.display(), %error, "failed to trim task events");
        }
        self.segments.retain(|segment| segment.start != start);
    }
}

/// Directory of the raw log, below the events of its task.
pub fn raw_dir(dir: &Path) -> PathBuf {
    dir.join("raw")
}

/// Directory of the document of changes.
pub fn changes_dir(dir: &Path) -> PathBuf {
    dir.join("changes")
}

impl Task {
    /// Nothing more is written about the changes.
    pub fn changes_end(&mut self) {
        self.changes.measure();
        self.changes.ended(self.changes.head().end);
    }

    /// Ends the raw log: followers see its end.
    pub fn raw_ends(&mut self) {
        self.raw.measure();
        self.raw.ended(self.raw.head().end);
    }

    pub fn ended(&self) -> Option<TaskEnd> {
        match &self.state {
            State::Live(_) | State::Ending(_) => None,
            State::Done(ended) => Some(*ended),
        }
    }

    pub fn live_mut(&mut self) -> Option<&mut LiveTask> {
        match &mut self.state {
            State::Live(live) => Some(live),
            State::Ending(_) | State::Done(_) => None,
        }
    }

    /// The task as callers see it, without its result.
    pub fn view(&self, ahead: Option<usize>) -> TaskView {
        let (status, phase, ended) = match &self.state {
            State::Live(live) => match live.machine.phase() {
                TaskPhase::Queued => (TaskStatus::Queued, TaskPhase::Queued, None),
                phase @ (TaskPhase::Preparing
                | TaskPhase::Checkpoint
                | TaskPhase::Agent
                | TaskPhase::Build
                | TaskPhase::Health
                | TaskPhase::Done) => (TaskStatus::Running, phase, None),
            },
            // Not done before `done` can be read.
            State::Ending(_) if self.started_ms.is_none() => (TaskStatus::Queued, TaskPhase::Queued, None),
            State::Ending(_) => (TaskStatus::Running, TaskPhase::Health, None),
            State::Done(ended) => (ended.status, TaskPhase::Done, Some(ended)),
        };
        TaskView {
            id: self.id.clone(),
            status,
            phase,
            failure_reason: ended.and_then(|ended| ended.reason),
            agent: self.start.agent,
            created_ms: self.start.created_ms,
            started_ms: self.started_ms,
            ended_ms: ended.map(|ended| ended.ended_ms),
            ahead,
            oldest_seq: self.events.oldest(),
            last_seq: self.events.head().last,
            result: None,
        }
    }
}

/// Reads the last event of a finished task, which has a file of its own.
pub fn read_done(dir: &Path, segments: &[Segment]) -> Option<DoneEvent> {
    task_log::of_kind(dir, segments.last()?.start, "done").pop()
}

/// The fields that are read of a `done` event.
#[derive(Deserialize)]
pub struct DoneEvent {
    #[serde(rename = "time_ms")]
    pub ended_ms: u64,
    pub result: TaskResult,
    #[serde(default)]
    pub told: Option<Cursor>,
}

pub fn missing(id: &TaskId) -> Refusal {
    let message = format!("there is no task {id}");
    Box::new(protocol::ErrorBody::new(protocol::ErrorCode::NotFound, message))
}
